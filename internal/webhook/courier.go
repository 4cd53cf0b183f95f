package webhook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
)

// Courier makes attempts. It is safe for concurrent use, and keeps connections open
// between attempts.
type Courier struct {
	wire   *wire
	policy *Policy
	dns    *net.Resolver
	agent  string
	source string
}

// Options are what a courier is told. The zero value denies private addresses.
type Options struct {
	Version string        // for the User-Agent
	Source  string        // of CloudEvents that name none; default eventsvc
	Policy  *Policy       // which addresses may be dialled; nil is NewPolicy()
	DNS     *net.Resolver // nil is the system's
	Proxy   *url.URL      // a forward proxy that all goes through; nil is none
	HTTP1   bool          // HTTP/1.1 alone
}

// Bounds of an attempt, beside the receiver's own timeout.
const (
	connectTimeout     = 10 * time.Second
	tlsTimeout         = 10 * time.Second
	idleTimeout        = 55 * time.Second // shorter than the minute after which many servers hang up
	maxResponseHeaders = 64 << 10         // bounds a flood of 1xx answers too
	idlePerHost        = 256
)

// New makes a courier. It speaks HTTP/1.1, and HTTP/2 over TLS where the peer offers it.
func New(o Options) *Courier {
	if o.Policy == nil {
		o.Policy = NewPolicy()
	}
	if o.DNS == nil {
		o.DNS = net.DefaultResolver
	}
	if o.Source == "" {
		o.Source = "eventsvc"
	}
	agent := "eventsvc/" + o.Version
	dial := (&net.Dialer{Timeout: connectTimeout, Resolver: o.DNS, Control: o.Policy.control}).DialContext
	if o.Proxy != nil {
		dial = newProxy(&o, agent).DialContext
	}
	return &Courier{wire: newWire(dial, o.HTTP1, o.Proxy == nil), policy: o.Policy, dns: o.DNS, agent: agent, source: o.Source}
}

// CloseIdle closes connections that no attempt uses.
func (c *Courier) CloseIdle() { c.wire.closeIdle() }

// Attempt makes one request to the claim's target and reads the answer. It is total:
// whatever the receiver does, and whatever is stored, is a verdict.
func (c *Courier) Attempt(ctx context.Context, claim *event.Claim) event.Verdict {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, claim.To.Receiver.Timeout)
	defer cancel()
	seen := &sighting{began: began}
	req, body, err := c.request(ctx, claim, began)
	if err != nil {
		return undeliverable(err, began)
	}
	resp, err := c.wire.send(req, body, seen)
	if err != nil {
		seen.leave(false)
		return seen.finish(failure(ctx, err, claim.To.Receiver.Timeout))
	}
	verdict, odd := oddStatus(resp)
	if !odd {
		verdict = judge(resp, claim.To.Receiver, time.Now())
		verdict.HTTPStatus = resp.StatusCode
	}
	verdict = seen.finish(verdict)
	// The status line and the headers have decided. The body is evidence, or a result.
	seen.hear(resp, cancel, func() bool {
		body := io.Reader(resp.Body)
		if verdict.Ruling == event.Success && bearsResult(resp, claim.To) {
			body = hearResult(&verdict, resp.Body)
		}
		var whole bool
		verdict.Evidence.Response, whole = testimony(resp, body)
		return whole
	})
	return verdict
}

// Check says why no request can be made of what is stored, or nil. What is stored is
// the same at every attempt, and so is the answer.
func (c *Courier) Check(claim *event.Claim) error {
	if !slices.Contains(known, claim.Format) {
		return fmt.Errorf("format %q is not known", claim.Format)
	}
	if len(claim.Event.Data) == 0 {
		return errors.New("the event has no data")
	}
	if !claim.To.Pulled() {
		if err := sendable(claim.To.URL); err != nil {
			return err
		}
	}
	if err := wellFormed(claim.Event.Data); err != nil {
		return fmt.Errorf("data is no JSON: %w", err)
	}
	return nil
}

// sendable says why no request can be made to a stored address, without repeating it, or
// is nil.
func sendable(raw string) error {
	u, err := url.Parse(raw)
	if err != nil {
		return unreadable(err)
	}
	return addressed(u)
}

func unreadable(err error) error {
	return errors.New("the address cannot be read: " + safeText(withoutURL(err).Error(), maxReason))
}

func addressed(u *url.URL) error {
	if u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" {
		return errors.New("the address is not one of http or https that names a host")
	}
	return nil
}

// undeliverable is the verdict on a stored delivery that no request can be made of. It
// would be the same every time.
func undeliverable(err error, began time.Time) event.Verdict {
	return event.Verdict{
		Ruling: event.Permanent, Class: event.ClassDecode, Reason: "no request can be made of what is stored: " + err.Error(),
		StartedAt: began, Duration: time.Since(began),
	}
}

func (c *Courier) request(ctx context.Context, claim *event.Claim, now time.Time) (*http.Request, []byte, error) {
	body, err := c.render(claim.Format, &claim.Event)
	if err != nil {
		return nil, nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, claim.To.URL, nil)
	if err != nil {
		return nil, nil, unreadable(err)
	}
	if err := addressed(req.URL); err != nil {
		return nil, nil, err
	}
	req.Header = make(http.Header, maxOwnHeaders+len(claim.To.Receiver.Headers)+len(claim.To.Headers))
	c.writeHeaders(req.Header, ctx, claim, body, now)
	return req, body, nil
}
