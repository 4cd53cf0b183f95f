package webhook

import (
	"bytes"
	"encoding/base64"
	"io"
	"net/http"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/eventsvc/eventsvc/internal/event"
)

// Bounds of what is kept of an answer.
const (
	maxKeptBody   = 4 << 10
	maxKeptHeader = 256
	// maxRead is how much of a body is read to its end, so that the connection can be
	// used again. A new connection is cheaper than reading more.
	maxRead = 64 << 10
)

// keptHeaders are those worth keeping. Others may hold what is not ours to keep:
// cookies, or our own credentials echoed.
var keptHeaders = []string{"Content-Type", "Date", "Location", "Retry-After", "Server", "X-Request-Id",
	"Eventsvc-Verdict", "Eventsvc-Counts", "Eventsvc-Not-Before"}

// testimony is what the receiver said, made safe to store and to show. It takes what has
// come when the body breaks, and reads no more of it than maxRead; whole says that this was
// all.
func testimony(resp *http.Response, from io.Reader) (_ event.Response, whole bool) {
	r := event.Response{}
	for _, name := range keptHeaders {
		if v := resp.Header.Get(name); v != "" {
			if r.Headers == nil {
				r.Headers = map[string]string{}
			}
			r.Headers[strings.ToLower(name)] = safeHeader(name, v)
		}
	}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		// After a 101 the client hands the bare connection over as the body: the attempt's
		// deadline no longer ends a read of it, and silence would hold the attempt for ever.
		return r, false
	}
	body, err := readUpTo(from, maxKeptBody+1, resp.ContentLength)
	if len(body) > maxKeptBody {
		body, r.Cut = body[:maxKeptBody], true
	}
	whole = err == nil && !r.Cut
	if r.Cut && err == nil && resp.ContentLength <= maxRead {
		_, err = io.CopyN(io.Discard, from, maxRead-maxKeptBody) // only for the connection's sake
		whole = err == io.EOF
	}
	text := body
	if r.Cut {
		text = wholeRunes(body)
	}
	if utf8.Valid(text) && bytes.IndexByte(text, 0) < 0 {
		r.Body = string(text)
	} else {
		r.Body, r.Base64 = base64.StdEncoding.EncodeToString(body), true
	}
	return r, whole
}

// readUpTo reads to the end, but no more than most bytes. Where the length is known it is
// what room is made for; below zero it is not.
func readUpTo(from io.Reader, most int, length int64) ([]byte, error) {
	room := 512
	if length >= 0 {
		room = int(min(length, int64(most))) + 1 // one more, so that the end is found without growing
	}
	all := make([]byte, 0, room)
	for len(all) < most {
		all = slices.Grow(all, 1)
		n, err := from.Read(all[len(all):min(cap(all), most)])
		all = all[:len(all)+n]
		if err == io.EOF {
			break
		}
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

// safeHeader is a header's value as safeText. A Location is kept without its query,
// which may hold a secret.
func safeHeader(name, v string) string {
	if name == "Location" {
		v, _, _ = strings.Cut(v, "?")
	}
	return safeText(v, maxKeptHeader)
}

// safeText is foreign text in one line that can be stored and shown: valid UTF-8 without
// control characters, of at most that many bytes.
func safeText(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	if len(s) > most {
		s = string(wholeRunes([]byte(s[:most])))
	}
	return s
}

// wholeRunes drops the start of a rune that was cut at the end.
func wholeRunes(b []byte) []byte {
	for i := 1; i <= utf8.UTFMax && i <= len(b); i++ {
		if tail := b[len(b)-i:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				return b[:len(b)-i]
			}
			break
		}
	}
	return b
}
