package bench

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/webhook"
)

// sink is a receiver that costs as little as one can: HTTP/1.1 read by hand, and an
// answer without a word too many. It remembers what came, and when.
type sink struct {
	url      string
	listener net.Listener
	secret   *event.Signer                                     // every verifyEvery-th signature is checked
	delay    time.Duration                                     // before each answer
	answer   func(id string) (status int, after time.Duration) // nil: 200 to everybody
	count    atomic.Int64                                      // requests read whole
	forged   atomic.Int64                                      // signatures that were wrong

	mu    sync.Mutex
	doors []*sinkDoor
}

// verifyEvery is how many requests share one check of a signature: enough to know that
// all are signed, and too few to be measured.
const verifyEvery = 256

// arrival is one request.
type arrival struct {
	id    string
	at    time.Duration // since epoch
	fired time.Duration // the same, of the event's POST; 0 where it does not say
}

// epoch is what times within this process count from, by a clock that nobody sets.
var epoch = time.Now()

func sinceEpoch() time.Duration { return time.Since(epoch) }

// sinkDoor is one connection.
type sinkDoor struct {
	conn net.Conn
	mu   sync.Mutex
	seen []arrival
}

// openSink opens one that serves until it is closed. set, unless nil, has it before that.
func openSink(secret *event.Signer, set func(*sink)) (*sink, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &sink{url: "http://" + l.Addr().String() + "/", listener: l, secret: secret}
	if set != nil {
		set(s)
	}
	go s.serve()
	return s, nil
}

// serve takes connections until the sink is closed.
func (s *sink) serve() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		d := &sinkDoor{conn: conn}
		s.mu.Lock()
		s.doors = append(s.doors, d)
		s.mu.Unlock()
		go s.attend(d)
	}
}

func (s *sink) close() {
	s.listener.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.doors {
		d.conn.Close()
	}
}

// arrivals are all requests so far.
func (s *sink) arrivals() (all []arrival) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.doors {
		d.mu.Lock()
		all = append(all, d.seen...)
		d.mu.Unlock()
	}
	return all
}

func (s *sink) attend(d *sinkDoor) {
	defer d.conn.Close()
	in := bufio.NewReaderSize(d.conn, 32<<10)
	var body []byte
	for {
		r, err := readRequest(in, &body, s.secret != nil && s.count.Load()%verifyEvery == 0)
		if err != nil {
			return
		}
		a := arrival{id: r.id, at: sinceEpoch(), fired: firedAt(body)}
		if r.header != nil && webhook.Verify(r.header, body, time.Now(), s.secret) != nil {
			s.forged.Add(1)
		}
		d.mu.Lock()
		d.seen = append(d.seen, a)
		d.mu.Unlock()
		s.count.Add(1)
		if s.delay > 0 {
			time.Sleep(s.delay)
		}
		line := okLine
		if s.answer != nil {
			line = answerLine(s.answer(a.id))
		}
		if _, err := d.conn.Write(line); err != nil {
			return
		}
	}
}

var okLine = []byte("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

func answerLine(status int, after time.Duration) []byte {
	if status == http.StatusOK {
		return okLine
	}
	seconds := int(math.Ceil(after.Seconds()))
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nRetry-After: %d\r\nContent-Length: 0\r\n\r\n", status, http.StatusText(status), seconds)
}

// sinkRequest is what is kept of a request's head.
type sinkRequest struct {
	id     string
	header http.Header // only where it was asked for
}

var errNoRequest = errors.New("this is no HTTP/1.1 request with a Content-Length")

func readRequest(in *bufio.Reader, body *[]byte, whole bool) (r sinkRequest, err error) {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return r, err
	}
	if !bytes.HasPrefix(line, []byte("POST ")) {
		return r, errNoRequest
	}
	if whole {
		r.header = http.Header{}
	}
	length := -1
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return r, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimSpace(value)
		switch {
		case bytes.EqualFold(name, []byte("webhook-id")):
			r.id = string(value)
		case bytes.EqualFold(name, []byte("content-length")):
			if length, err = strconv.Atoi(string(value)); err != nil {
				return r, errNoRequest
			}
		}
		if whole {
			r.header.Add(strings.Clone(string(name)), string(value))
		}
	}
	if length < 0 {
		return r, errNoRequest
	}
	if cap(*body) < length {
		*body = make([]byte, length)
	}
	*body = (*body)[:length]
	_, err = io.ReadFull(in, *body)
	return r, err
}

// firedAt reads the time that the load puts first into the data of its events.
func firedAt(body []byte) time.Duration {
	at := bytes.Index(body, []byte(stamp))
	if at < 0 || len(body) < at+len(stamp)+stampDigits {
		return 0
	}
	var n int64
	for _, c := range body[at+len(stamp) : at+len(stamp)+stampDigits] {
		n = n*10 + int64(c-'0')
	}
	return time.Duration(n)
}
