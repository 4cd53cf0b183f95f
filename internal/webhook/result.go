package webhook

import (
	"bytes"
	"fmt"
	"io"
	"mime"
	"net/http"

	"github.com/eventsvc/eventsvc/internal/event"
)

// mediaResult is the type of an answer that asks for something to be done with the record
// of its success.
const mediaResult = "application/vnd.eventsvc.result+json"

// maxResult bounds one.
const maxResult = 512 << 10

// bearsResult reports whether an answer is one. Targets of fan-out receivers are strangers',
// who have nothing to ask for.
func bearsResult(resp *http.Response, to *event.Target) bool {
	media, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return err == nil && media == mediaResult && !to.Receiver.FanOut
}

// hearResult reads a result whole: half of one would do half of what was asked for, so then
// the attempt has failed. What was read is there to be read again.
func hearResult(v *event.Verdict, from io.Reader) io.Reader {
	body, err := io.ReadAll(io.LimitReader(from, maxResult+1))
	switch {
	case err != nil:
		failResult(v, "did not arrive whole: it must within a second of its headers")
	case len(body) > maxResult:
		failResult(v, fmt.Sprintf("is longer than %d bytes", maxResult))
	default:
		v.Result = body
	}
	return bytes.NewReader(body)
}

func failResult(v *event.Verdict, why string) {
	v.Ruling, v.Class, v.Reason = event.Failure, event.ClassProtocol, "the result in the answer "+why
}
