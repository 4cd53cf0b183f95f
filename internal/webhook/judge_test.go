package webhook

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

func plainReceiver() *event.Receiver {
	return &event.Receiver{Key: "k", Timeout: 2 * time.Second, Format: event.FormatStandard, PermanentStatuses: []int{410}, Trace: true,
		Terms: event.Terms{CountDeferrals: true, MaxRetryAfter: 24 * time.Hour}}
}

var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// Contract, section 4.
func TestAnswersAreJudgedAsTheContractSays(t *testing.T) {
	h := func(pairs ...string) http.Header {
		header := http.Header{}
		for i := 0; i < len(pairs); i += 2 {
			header.Add(pairs[i], pairs[i+1])
		}
		return header
	}
	uncounted := plainReceiver()
	uncounted.CountDeferrals = false
	future := noon.Add(time.Hour)
	for _, c := range []struct {
		name   string
		status int
		header http.Header
		to     *event.Receiver
		ruling event.Ruling
		class  event.Class
		check  func(event.Verdict) bool
	}{
		{"200", 200, h(), nil, event.Success, "", nil},
		{"299", 299, h(), nil, event.Success, "", nil},
		{"410", 410, h(), nil, event.Permanent, event.ClassPermanent, nil},
		{"a verdict header", 500, h("Eventsvc-Verdict", "Permanent"), nil, event.Permanent, event.ClassPermanent, nil},
		{"429 bare", 429, h(), nil, event.Failure, event.ClassHTTP4xx, nil},
		{"429 with seconds", 429, h("Retry-After", "120"), nil, event.RetryAfter, event.ClassRetryAfter, func(v event.Verdict) bool { return v.After == 2*time.Minute && !v.Uncounted }},
		{"503 with seconds", 503, h("Retry-After", "0"), nil, event.RetryAfter, event.ClassRetryAfter, func(v event.Verdict) bool { return v.After == 0 }},
		{"500 with seconds", 500, h("Retry-After", "120"), nil, event.Failure, event.ClassHTTP5xx, nil},
		{"not counted by the receiver's terms", 429, h("Retry-After", "9"), uncounted, event.RetryAfter, event.ClassRetryAfter, func(v event.Verdict) bool { return v.Uncounted }},
		{"not counted by its answer", 429, h("Retry-After", "9", "Eventsvc-Counts", "false"), nil, event.RetryAfter, event.ClassRetryAfter, func(v event.Verdict) bool { return v.Uncounted }},
		{"425 in the future", 425, h("Eventsvc-Not-Before", future.Format(time.RFC3339)), nil, event.NotYet, "", func(v event.Verdict) bool { return v.Until.Equal(future) }},
		{"425 in the past", 425, h("Eventsvc-Not-Before", noon.Add(-time.Second).Format(time.RFC3339)), nil, event.Failure, event.ClassHTTP4xx, func(v event.Verdict) bool { return strings.Contains(v.Reason, "past") }},
		{"425 without an offset", 425, h("Eventsvc-Not-Before", "2027-01-01T00:00:00"), nil, event.Failure, event.ClassHTTP4xx, func(v event.Verdict) bool { return strings.Contains(v.Reason, "offset") }},
		{"425 bare", 425, h(), nil, event.Failure, event.ClassHTTP4xx, nil},
		{"301", 301, h("Location", "http://192.0.2.9/"), nil, event.Failure, event.ClassHTTP3xx, nil},
		{"404", 404, h(), nil, event.Failure, event.ClassHTTP4xx, nil},
		{"599", 599, h(), nil, event.Failure, event.ClassHTTP5xx, nil},
		{"600", 600, h(), nil, event.Failure, event.ClassProtocol, nil},
		{"99", 99, h(), nil, event.Failure, event.ClassProtocol, nil},
		{"0", 0, h(), nil, event.Failure, event.ClassProtocol, nil},
	} {
		to := c.to
		if to == nil {
			to = plainReceiver()
		}
		v := judge(&http.Response{StatusCode: c.status, Header: c.header}, to, noon)
		if v.Ruling != c.ruling || v.Class != c.class || c.check != nil && !c.check(v) {
			t.Errorf("%s: got %+v", c.name, v)
		}
	}
}

func TestRetryAfterIsReadAsRFC9110Says(t *testing.T) {
	date := noon.Add(time.Minute)
	for name, c := range map[string]struct {
		values []string
		date   string
		want   time.Duration
		ok     bool
	}{
		"seconds":            {[]string{"120"}, "", 2 * time.Minute, true},
		"zero":               {[]string{"0"}, "", 0, true},
		"spaces":             {[]string{" 7 "}, "", 7 * time.Second, true},
		"IMF date":           {[]string{date.Format(http.TimeFormat)}, "", time.Minute, true},
		"RFC 850 date":       {[]string{date.Format("Monday, 02-Jan-06 15:04:05 GMT")}, "", time.Minute, true},
		"asctime date":       {[]string{date.Format(time.ANSIC)}, "", time.Minute, true},
		"against its Date":   {[]string{date.Format(http.TimeFormat)}, date.Add(-10 * time.Second).Format(http.TimeFormat), 10 * time.Second, true},
		"past date":          {[]string{noon.Add(-time.Hour).Format(http.TimeFormat)}, "", 0, true},
		"year 9999":          {[]string{"Fri, 31 Dec 9999 23:59:59 GMT"}, "", event.MaxDuration, true},
		"9999999999":         {[]string{"9999999999"}, "", event.MaxDuration, true},
		"forty digits":       {[]string{strings.Repeat("9", 40)}, "", event.MaxDuration, true},
		"negative":           {[]string{"-5"}, "", 0, false},
		"fraction":           {[]string{"1.5"}, "", 0, false},
		"words":              {[]string{"abc"}, "", 0, false},
		"empty":              {[]string{""}, "", 0, false},
		"superscript digits": {[]string{"¹²"}, "", 0, false},
		"none":               {nil, "", 0, false},
		"two that differ":    {[]string{"5", "6"}, "", 0, false},
		"two of the same":    {[]string{"5", "5"}, "", 0, false},
	} {
		h := http.Header{"Retry-After": c.values}
		if c.date != "" {
			h.Set("Date", c.date)
		}
		if got, ok := retryAfter(h, noon); got != c.want || ok != c.ok {
			t.Errorf("%s: got %v, %v; want %v, %v", name, got, ok, c.want, c.ok)
		}
	}
}

func FuzzRetryAfterNeverOverflows(f *testing.F) {
	for _, seed := range []string{"120", "-5", "99999999999999999999", "Fri, 31 Dec 9999 23:59:59 GMT", ""} {
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, value, date string) {
		if got, _ := retryAfter(http.Header{"Retry-After": {value}, "Date": {date}}, noon); got < 0 || got > event.MaxDuration {
			t.Errorf("%q gave %v", value, got)
		}
	})
}
