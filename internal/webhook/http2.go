package webhook

import (
	"errors"
	"net/http"
	"regexp"
	"strings"
	"time"

	"golang.org/x/net/http2"

	"github.com/eventsvc/eventsvc/internal/event"
)

// HTTP/2 is spoken over TLS to whoever offers it. Go's client sends a request again within
// one call where a peer refuses its stream or goes away; it does not where the body cannot
// be rewound and has been looked at (golang.org/x/net/http2, shouldRetryRequest), so one
// attempt is one request here too (P6). A request whose headers never left may be put on
// another connection.

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

// speakHTTP2 has a transport speak HTTP/2 to who offers it, with the implementation of
// golang.org/x/net. The one inside net/http waits for a lock that it holds itself once a
// peer widens a stream's window beyond its bound (Go 1.26, processWindowUpdate): such an
// attempt never ends, and the next one to the same peer stops all that speak HTTP/2.
func speakHTTP2(t *http.Transport) {
	//lint:ignore SA1019 what is advised instead is the one that waits for itself
	t2, err := http2.ConfigureTransports(t)
	if err != nil {
		panic(err) // only for a transport that speaks it already
	}
	//lint:ignore SA1019 this implementation does not look at MaxResponseHeaderBytes
	t2.MaxHeaderListSize = maxResponseHeaders
	t.HTTP2 = &http.HTTP2Config{
		MaxReceiveBufferPerStream: streamWindow, MaxReceiveBufferPerConnection: connectionWindow, MaxDecoderHeaderTableSize: 4 << 10, MaxReadFrameSize: 16 << 10,
		SendPingTimeout: pingAfter, PingTimeout: pingTimeout, WriteByteTimeout: stuckAfter,
	}
}

// resets is what is said of a stream that was reset, by whichever side. It has a type, but
// not where it stands in the reason why nothing is sent again.
var resets = regexp.MustCompile(`stream error: stream ID \d+; ([A-Z0-9_]+|unknown error code 0x[0-9a-f]+)(; received from peer)?`)

// http2Failure is the class and reason of an error of HTTP/2; some have no type. What a
// peer says in a GOAWAY is not repeated.
func http2Failure(err error) (class event.Class, reason string, found bool) {
	text := err.Error()
	reset := resets.FindStringSubmatch(text)
	var broken http2.ConnectionError
	switch {
	case reset != nil && reset[2] != "":
		return event.ClassConnect, "the receiver reset the request (" + reset[1] + ") before an answer came", true
	case reset != nil:
		return event.ClassProtocol, "the answer breaks HTTP/2 (" + reset[1] + ")", true
	case strings.Contains(text, "GOAWAY"):
		return event.ClassConnect, "the receiver closed the connection (GOAWAY) before an answer came", true
	case strings.Contains(text, "http2: client connection lost"), strings.Contains(text, "http2: client connection force closed"),
		strings.Contains(text, "http2: client conn is closed"), strings.Contains(text, "http2: client conn not usable"):
		return event.ClassConnect, "the connection was lost before an answer came", true
	case strings.Contains(text, "http2: timeout awaiting response headers"):
		return event.ClassTimeout, "the receiver took too long to answer", true
	case errors.As(err, &broken), strings.HasPrefix(text, "http2: "):
		return event.ClassProtocol, "the answer breaks HTTP/2: " + plain(err), true
	}
	return "", "", false
}
