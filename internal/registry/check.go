package registry

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/eventsvc/eventsvc/internal/event"
)

// Bounds of a declaration.
const (
	maxPatterns    = 200
	maxAttempts    = 1000
	maxConcurrency = 1000
	maxTimeout     = 5 * time.Minute
	maxInline      = 10 * time.Second
	maxLease       = 24 * time.Hour
	maxHeaders     = 50
	maxHeaderValue = 4096
	maxMetadata    = 50
)

var keyForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,254}$`)

// CheckKey says what is wrong with the key of a receiver, or the name of a target, of that
// tenant, or nil. It may be under the tenant's names; see [event.Own].
func CheckKey(key, tenant string) error {
	if !keyForm.MatchString(event.Bare(tenant, key)) {
		return fmt.Errorf("must be 1 to 255 of A-Z, a-z, 0-9, dot, _ and -, beginning with a letter or digit%s", ownForm(key, tenant))
	}
	return nil
}

// ownForm says what would do for a name that is under those of another tenant.
func ownForm(key, tenant string) string {
	owner := event.Owner(key)
	switch {
	case owner == "":
		return ""
	case tenant == "":
		return fmt.Sprintf("; one under the names of %s is of tenant %s, so declare it with that", owner, owner)
	}
	return fmt.Sprintf("; or under the names of its tenant, which is %s", event.Own(tenant, "NAME"))
}

// CheckLane says what is wrong with the name of a lane, or nil.
func CheckLane(name string) error {
	if len(name) > 64 || !keyForm.MatchString(name) {
		return fmt.Errorf("must be 1 to 64 of A-Z, a-z, 0-9, dot, _ and -")
	}
	return nil
}

// check lists everything that is wrong with the declaration, each flaw with the
// field's pointer and the rule.
func (d *Declaration) check(o *Options) event.Flaws {
	var flaws event.Flaws
	d.checkEvents(&flaws)
	checkFilter(&flaws, d.Filter)
	d.checkDestination(&flaws, o.CheckURL)
	d.checkFunction(&flaws, o.FunctionSchemas)
	d.checkMode(&flaws)
	d.checkNotice(&flaws, o.CheckURL)
	d.checkWords(&flaws)
	d.checkTimes(&flaws, o.Defaults)
	d.checkNumbers(&flaws)
	checkHeaders(&flaws, d.Headers)
	checkMetadata(&flaws, d.Metadata)
	return flaws
}

func (d *Declaration) checkEvents(flaws *event.Flaws) {
	switch {
	case len(d.Events) == 0:
		flaws.Add("/events", `is required: name at least one event type, a prefix like "order.*", or "*"`)
	case len(d.Events) > maxPatterns:
		flaws.Add("/events", fmt.Sprintf("holds %d patterns; at most %d are allowed", len(d.Events), maxPatterns))
	}
	for i, p := range d.Events {
		if err := p.Check(); err != nil {
			flaws.Add("/events/"+strconv.Itoa(i), err.Error())
		}
	}
}

func (d *Declaration) checkDestination(flaws *event.Flaws, checkURL func(string) error) {
	switch {
	case d.Pulled():
		d.checkPulled(flaws)
	case d.URL == "" && d.Function == "" && !d.FanOut:
		flaws.Add("/url", "is required: a receiver needs a destination, a url, a function or fan_out; or site task without one, for workers that claim its deliveries")
	case d.Function != "" && d.URL != "":
		flaws.Add("/function", "and url exclude each other: a receiver has one destination")
	case d.Function != "" && d.Site == SiteTask:
		flaws.Add("/site", "must be relay with function: it runs in the service's database, whichever process calls it")
	case d.Function != "" && d.FanOut:
		flaws.Add("/function", "and fan_out exclude each other: a receiver has one destination")
	case d.FanOut && d.URL != "":
		flaws.Add("/fan_out", "and url exclude each other: with fan_out each target has a url of its own")
	case d.FanOut && d.Secret != nil:
		flaws.Add("/secret", "has no meaning with fan_out: each target has a secret of its own")
	case d.URL != "":
		if err := checkURL(d.URL); err != nil {
			flaws.Add("/url", err.Error())
		}
	}
	for i, way := range d.Signatures {
		if way != event.SignV1 && way != event.SignV1a {
			flaws.Add("/signatures/"+strconv.Itoa(i), "may be v1 or v1a")
		}
	}
	if d.Secret != nil {
		if _, err := event.ParseSecret(*d.Secret); err != nil {
			flaws.Add("/secret", err.Error())
		}
	}
}

// checkPulled refuses what has no meaning where no request is made.
func (d *Declaration) checkPulled(flaws *event.Flaws) {
	for _, f := range []struct {
		pointer string
		given   bool
	}{
		{"/timeout", d.Timeout != nil}, {"/format", d.Format != ""}, {"/headers", len(d.Headers) > 0},
		{"/permanent_statuses", d.PermanentStatuses != nil}, {"/max_concurrency", d.MaxConcurrency != nil}, {"/pause_scope", d.PauseScope != ""},
		{"/trace", d.Trace != nil}, {"/eager", d.Eager},
	} {
		if f.given {
			flaws.Add(f.pointer, "has no meaning with site task and no url: workers claim its deliveries, and no request is made; leave it out, or give a url")
		}
	}
}

// checkNotice holds the address that failures are told to by the same policy as the
// receiver's own.
func (d *Declaration) checkNotice(flaws *event.Flaws, checkURL func(string) error) {
	if d.OnFailure == nil {
		return
	}
	if err := checkURL(d.OnFailure.URL); err != nil {
		flaws.Add("/on_failure/url", err.Error())
	}
}

func (d *Declaration) checkWords(flaws *event.Flaws) {
	oneOf(flaws, "/mode", string(d.Mode), string(event.Durable), string(event.OnCommit), string(event.Inline))
	oneOf(flaws, "/site", d.Site, SiteRelay, SiteTask)
	oneOf(flaws, "/format", string(d.Format), string(event.FormatStandard), string(event.FormatCloudEvents), string(event.FormatCloudEventsBinary), string(event.FormatRaw))
	oneOf(flaws, "/pause_scope", string(d.PauseScope), string(event.PauseLane), string(event.PauseTarget))
	if err := CheckLane(d.lane()); err != nil {
		flaws.Add("/lane", err.Error())
	}
	plainText(flaws, "/tenant", d.Tenant, 255)
	plainText(flaws, "/description", d.Description, 1000)
}

func (d *Declaration) checkTimes(flaws *event.Flaws, def Defaults) {
	positive(flaws, "/backoff_base", d.BackoffBase)
	positive(flaws, "/backoff_cap", d.BackoffCap)
	positive(flaws, "/give_up_after", d.GiveUpAfter)
	positive(flaws, "/timeout", d.Timeout)
	positive(flaws, "/lease", d.Lease)
	if d.BackoffBase != nil && d.BackoffCap != nil && *d.BackoffCap < *d.BackoffBase {
		flaws.Add("/backoff_cap", fmt.Sprintf("%s is below backoff_base %s: every wait would be the cap's and the base never read", *d.BackoffCap, *d.BackoffBase))
	}
	switch {
	case d.timeout() > maxTimeout:
		flaws.Add("/timeout", fmt.Sprintf("%s is longer than %s", event.Duration(d.timeout()), event.Duration(maxTimeout)))
	case d.mode() == event.Inline && d.timeout() > maxInline:
		flaws.Add("/timeout", fmt.Sprintf("%s is longer than %s: with mode inline, producers wait for it", event.Duration(d.timeout()), event.Duration(maxInline)))
	}
	switch lease := d.lease(def); {
	case lease <= 0: // said above
	case lease <= d.leaseFloor() && d.Pulled():
		flaws.Add("/lease", fmt.Sprintf("%s must be longer than 5s, so that a verdict can still be recorded under it", event.Duration(lease)))
	case lease <= d.leaseFloor():
		flaws.Add("/lease", fmt.Sprintf("%s must exceed timeout %s by more than 5s, so that a verdict can still be recorded under it", event.Duration(lease), event.Duration(d.timeout())))
	case lease > maxLease:
		flaws.Add("/lease", fmt.Sprintf("%s is longer than %s", event.Duration(lease), event.Duration(maxLease)))
	}
	if d.CountDeferrals != nil && !*d.CountDeferrals && d.GiveUpAfter == nil {
		flaws.Add("/count_deferrals", "false needs give_up_after: nothing else would end a delivery whose deferrals spend no attempt")
	}
}

func (d *Declaration) checkNumbers(flaws *event.Flaws) {
	within(flaws, "/max_attempts", d.MaxAttempts, 1, maxAttempts)
	within(flaws, "/max_concurrency", d.MaxConcurrency, 1, maxConcurrency)
	for i, status := range d.PermanentStatuses {
		if status < 300 || status > 599 {
			flaws.Add("/permanent_statuses/"+strconv.Itoa(i), fmt.Sprintf("%d is no status of a refusal: it must be 300 to 599", status))
		}
	}
}

func oneOf(flaws *event.Flaws, pointer, got string, allowed ...string) {
	if got != "" && !slices.Contains(allowed, got) {
		flaws.Add(pointer, fmt.Sprintf("%q is not known; it may be %s", got, strings.Join(allowed, ", ")))
	}
}

func positive(flaws *event.Flaws, pointer string, d *event.Duration) {
	if d != nil && *d <= 0 {
		flaws.Add(pointer, "must be longer than 0s")
	}
}

func within(flaws *event.Flaws, pointer string, n *int, low, high int) {
	if n != nil && (*n < low || *n > high) {
		flaws.Add(pointer, fmt.Sprintf("%d is outside %d to %d", *n, low, high))
	}
}

// plainText refuses control characters, which would forge lines in logs and pages,
// and more than limit bytes.
func plainText(flaws *event.Flaws, pointer, s string, limit int) {
	if len(s) > limit {
		flaws.Add(pointer, fmt.Sprintf("is %d bytes long; at most %d are allowed", len(s), limit))
	}
	if strings.ContainsFunc(s, unicode.IsControl) {
		flaws.Add(pointer, "must not hold control characters")
	}
}

func checkMetadata(flaws *event.Flaws, metadata map[string]string) {
	if len(metadata) > maxMetadata {
		flaws.Add("/metadata", fmt.Sprintf("holds %d entries; at most %d are allowed", len(metadata), maxMetadata))
	}
	for _, k := range slices.Sorted(maps.Keys(metadata)) {
		plainText(flaws, "/metadata/"+event.PointerToken(k), k, 128)
		plainText(flaws, "/metadata/"+event.PointerToken(k), metadata[k], 1024)
	}
}

// reservedHeaders are those that the sender itself sets, that frame the request, or
// that would make an HTTP client send it again.
var reservedHeaders = map[string]bool{
	"Host": true, "Content-Length": true, "Content-Type": true, "Content-Encoding": true, "Transfer-Encoding": true,
	"Connection": true, "Keep-Alive": true, "Te": true, "Trailer": true, "Upgrade": true, "Expect": true,
	"User-Agent": true, "Accept-Encoding": true, "Traceparent": true, "Tracestate": true, "Baggage": true,
	"Idempotency-Key": true, "X-Idempotency-Key": true,
}

var reservedHeaderPrefixes = []string{"Proxy-", "Webhook-", "Eventsvc-", "Ce-"}

func checkHeaders(flaws *event.Flaws, headers map[string]string) {
	if len(headers) > maxHeaders {
		flaws.Add("/headers", fmt.Sprintf("holds %d headers; at most %d are allowed", len(headers), maxHeaders))
	}
	seen := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		pointer := "/headers/" + event.PointerToken(name)
		canonical := http.CanonicalHeaderKey(name)
		switch twin, twice := seen[canonical]; {
		case !headerName(name):
			flaws.Add(pointer, "is no header name: letters, digits and !#$%&'*+-.^_`|~ only")
		case reserved(canonical):
			flaws.Add(pointer, "is a header that the sender sets or that frames the request; choose another name")
		case twice:
			flaws.Add(pointer, fmt.Sprintf("is the same header as %q", twin))
		case !headerValue(headers[name]):
			flaws.Add(pointer, fmt.Sprintf("must be at most %d of visible ASCII, space and tab", maxHeaderValue))
		}
		seen[canonical] = name
	}
}

func reserved(canonical string) bool {
	return reservedHeaders[canonical] || slices.ContainsFunc(reservedHeaderPrefixes, func(p string) bool { return strings.HasPrefix(canonical, p) })
}

func headerName(name string) bool {
	if name == "" || len(name) > 128 {
		return false
	}
	return !strings.ContainsFunc(name, func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		return !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}

func headerValue(v string) bool {
	if len(v) > maxHeaderValue || v != strings.TrimSpace(v) {
		return false
	}
	return !strings.ContainsFunc(v, func(r rune) bool { return r != '\t' && (r < ' ' || r > '~') })
}

// Check lists everything that is wrong with a declaration, as event.Flaws, or answers
// nil.
func (r *Registry) Check(d *Declaration) error {
	return d.check(&r.o).Err()
}
