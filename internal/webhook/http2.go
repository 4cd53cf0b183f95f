package webhook

import (
	"errors"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
)

// HTTP/2 is spoken over TLS to whoever offers it. Go's client sends a request again within
// one call where a peer refuses its stream or goes away; it does not where the body cannot
// be rewound and has been looked at (golang.org/x/net/http2, shouldRetryRequest), so one
// attempt is one request here too (P6). A request whose headers never left is put on
// another connection (wire).

// Bounds of a connection that many attempts share.
const (
	// windows are what a peer may send before it is read, for one request and for all.
	streamWindow     = 128 << 10
	connectionWindow = 2 << 20
	// A connection that is silent for pingAfter is asked whether it lives, and is closed
	// pingTimeout later if it does not: else every attempt would time out on a dead one.
	pingAfter   = 10 * time.Second
	pingTimeout = 5 * time.Second
	// stuckAfter is after how long without a byte taken a connection is closed.
	stuckAfter = 10 * time.Second
)

func http2Config() *http.HTTP2Config {
	return &http.HTTP2Config{
		MaxReceiveBufferPerStream: streamWindow, MaxReceiveBufferPerConnection: connectionWindow, MaxDecoderHeaderTableSize: 4 << 10, MaxReadFrameSize: 16 << 10,
		SendPingTimeout: pingAfter, PingTimeout: pingTimeout, WriteByteTimeout: stuckAfter,
	}
}

// resets is what net/http says of a stream that was reset, by whichever side.
var resets = regexp.MustCompile(`stream error: stream ID \d+; ([A-Z0-9_]+|unknown error code 0x[0-9a-f]+)(; received from peer)?`)

// nobodyTook reports whether no connection took a request. Where one turns out full or closed
// as it was chosen, net/http would look for another, and finds that it has closed the body
// that it had not read.
func nobodyTook(err error) bool {
	return errors.Is(err, errCrowded) || strings.Contains(err.Error(), "http2: client conn not usable") ||
		strings.Contains(err.Error(), "http2: client conn could not be established") || strings.Contains(err.Error(), "http2: no cached connection") || strings.Contains(err.Error(), "cannot rewind body after connection loss")
}

// wantsHTTP1 reports whether a peer asks for HTTP/1.1, of one request or of all.
func wantsHTTP1(err error) bool {
	reset := resets.FindStringSubmatch(err.Error())
	return reset != nil && reset[1] == "HTTP_1_1_REQUIRED" && reset[2] != "" || goneHTTP1.MatchString(err.Error())
}

var goneHTTP1 = regexp.MustCompile(`GOAWAY .*ErrCode[:=]HTTP_1_1_REQUIRED`)

// refusedStream reports whether a peer says that it has not looked at a request.
func refusedStream(err error) bool {
	reset := resets.FindStringSubmatch(err.Error())
	return reset != nil && reset[1] == "REFUSED_STREAM" && reset[2] != ""
}

// http2Failure is the class and reason of an error of HTTP/2, which net/http tells in
// text alone. What a peer says in a GOAWAY is not repeated.
func http2Failure(err error) (class event.Class, reason string, found bool) {
	text := err.Error()
	reset := resets.FindStringSubmatch(text)
	switch {
	case errors.Is(err, errFlood):
		return event.ClassProtocol, errFlood.Error(), true
	case errors.Is(err, errCrowded), errors.Is(err, errAnother):
		return event.ClassConnect, "the receiver's HTTP/2 takes no request, and HTTP/1.1 gets no answer", true
	case wantsHTTP1(err):
		return event.ClassConnect, "the receiver asks for HTTP/1.1 (HTTP_1_1_REQUIRED), which is spoken to it for the next hour", true
	case refusedStream(err):
		return event.ClassConnect, "the receiver did not take the request (REFUSED_STREAM)", true
	case strings.Contains(text, "graceful shutdown GOAWAY"):
		return event.ClassConnect, "the receiver closed the connection (GOAWAY) and did not take the request", true
	case reset != nil && reset[2] != "":
		return event.ClassConnect, "the receiver reset the request (" + reset[1] + ") before an answer came", true
	case reset != nil:
		return event.ClassProtocol, "the answer breaks HTTP/2 (" + reset[1] + ")", true
	case strings.Contains(text, "GOAWAY"):
		return event.ClassConnect, "the receiver closed the connection (GOAWAY) before an answer came", true
	case strings.Contains(text, "http2: client connection lost"), strings.Contains(text, "http2: client connection force closed"),
		strings.Contains(text, "http2: client conn is closed"), strings.Contains(text, "http2: client conn not usable"),
		strings.Contains(text, "http2: client conn could not be established"):
		return event.ClassConnect, "the connection was lost before an answer came", true
	case strings.Contains(text, "header list larger than peer's advertised limit"):
		return event.ClassProtocol, "the receiver takes no request with so many headers (MAX_HEADER_LIST_SIZE)", true
	case strings.Contains(text, "http2: timeout awaiting response headers"):
		return event.ClassTimeout, "the receiver took too long to answer", true
	case strings.HasPrefix(text, "connection error: "), strings.HasPrefix(text, "http2: "):
		return event.ClassProtocol, "the answer breaks HTTP/2: " + plain(err), true
	}
	return "", "", false
}
