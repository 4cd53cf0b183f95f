package e2e

import (
	"bytes"
	"crypto/tls"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// session is one HTTP/2 connection to an animal that speaks it frame by frame. A framer
// has one user at a time, and a script may drain beside what it says: each has one of its
// own, which write whole frames.
type session struct {
	*http2.Framer
	ears    *http2.Framer
	reading sync.Mutex // of ears
	conn    *tls.Conn
	spoken  bool // HTTP/2, by who called
	k       *keeper
	encoder *hpack.Encoder
	block   bytes.Buffer
}

// frames is where an animal lives that offers HTTP/2 and says what it likes in it.
func frames(script func(s *session)) func(*keeper) string {
	return func(k *keeper) string {
		config := &tls.Config{Certificates: []tls.Certificate{k.ca.issue(k, nil)}, NextProtos: []string{"h2"}}
		return secured(k, func(g *guest) {
			c := tls.Server(g.Conn, config)
			preface := make([]byte, len(http2.ClientPreface))
			if _, err := io.ReadFull(c, preface); err != nil {
				return
			}
			s := &session{Framer: http2.NewFramer(c, nil), ears: http2.NewFramer(c, c), conn: c, k: k, spoken: string(preface) == http2.ClientPreface}
			s.encoder = hpack.NewEncoder(&s.block)
			script(s)
		})
	}
}

// once says something to one request, and hears out what else comes.
func once(say func(s *session, stream uint32)) func(*keeper) string {
	return frames(func(s *session) {
		s.WriteSettings()
		if stream := s.await(true); stream != 0 {
			say(s, stream)
			s.drain()
		}
	})
}

// await reads frames until the headers of a request have come, or all of it, and answers
// its stream; 0 is none.
func (s *session) await(whole bool) uint32 {
	s.reading.Lock()
	defer s.reading.Unlock()
	for {
		f, err := s.ears.ReadFrame()
		if err != nil {
			return 0
		}
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				s.ears.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				s.ears.WritePing(true, f.Data)
			}
		case *http2.HeadersFrame:
			s.k.count(&s.k.requests)
			if !whole || f.StreamEnded() {
				return f.StreamID
			}
		case *http2.DataFrame:
			if f.StreamEnded() {
				return f.StreamID
			}
		}
	}
}

// drain reads what comes until the other side hangs up, counting requests.
func (s *session) drain() {
	for s.await(false) != 0 {
	}
}

// head is a block of headers, from pairs of a name and a value.
func (s *session) head(pairs ...string) []byte {
	s.block.Reset()
	for i := 0; i < len(pairs); i += 2 {
		s.encoder.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]})
	}
	return slices.Clone(s.block.Bytes())
}

func (s *session) answer(stream uint32, end bool, pairs ...string) {
	s.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: s.head(pairs...), EndHeaders: true, EndStream: end})
}

// answers says one head, and no more.
func answers(pairs ...string) func(*keeper) string {
	return once(func(s *session, id uint32) { s.answer(id, true, pairs...) })
}

// abandons resets the stream of a request that it has read.
func abandons(code http2.ErrCode) func(*keeper) string {
	return once(func(s *session, id uint32) { s.WriteRSTStream(id, code) })
}

// leaves says GOAWAY, and hangs up or stays.
func leaves(last uint32, code http2.ErrCode, hangsUp bool) func(*keeper) string {
	return once(func(s *session, _ uint32) {
		s.WriteGoAway(last, code, []byte("hush"))
		if hangsUp {
			s.conn.Close()
		}
	})
}

// repeats says something until it is not heard any more.
func repeats(say func(s *session, stream uint32) error) func(*keeper) string {
	return once(func(s *session, id uint32) {
		for say(s, id) == nil {
		}
	})
}

// raw says a frame as it is given, of whatever kind and length.
func raw(kind http2.FrameType, flags http2.Flags, payload []byte) func(*keeper) string {
	return once(func(s *session, id uint32) { s.WriteRawFrame(kind, flags, id, payload) })
}

// stuffs answers with so many headers of 1 KiB, each in a frame of its own.
func stuffs(many int, end bool) func(*keeper) string {
	return once(func(s *session, id uint32) {
		if s.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: s.head(":status", "200"), EndStream: end}) != nil {
			return
		}
		for n := range many {
			// Encoded anew, so that it is not named by its place in a table.
			s.encoder = hpack.NewEncoder(&s.block)
			s.encoder.SetMaxDynamicTableSize(0)
			if s.WriteContinuation(id, end && n == many-1, s.head("x-a", strings.Repeat("a", 1<<10))) != nil {
				return
			}
		}
	})
}

// references is a bomb: one header of 4 KiB in the table, named again and again.
func references(s *session, id uint32) {
	s.answer(id, false, ":status", "103", "x-a", strings.Repeat("a", 3<<10))
	s.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: s.head(":status", "200"), EndStream: true})
	for n := range 64 {
		if s.WriteContinuation(id, n == 63, bytes.Repeat([]byte{0x80 | 62}, 16<<10)) != nil {
			return
		}
	}
}

// framed are those that offer HTTP/2.
func framed() []animal {
	zeros, squeezed := make([]byte, 1<<14), []byte(bomb()[:8<<10])
	return []animal{
		{"h2", once(func(s *session, id uint32) {
			s.answer(id, false, ":status", "200")
			s.WriteData(id, true, []byte("hi"))
		}), "", 200, []string{"response.body", "hi"}, 1},
		{"h2, 204 with a body", once(func(s *session, id uint32) {
			s.answer(id, false, ":status", "204")
			s.WriteData(id, true, []byte("hi"))
		}), "", 204, nil, 1},
		{"h2, after early hints", once(func(s *session, id uint32) {
			s.answer(id, false, ":status", "103", "link", "</a>")
			s.answer(id, true, ":status", "200")
		}), "", 200, nil, 1},
		{"h2, trailers", once(func(s *session, id uint32) {
			s.answer(id, false, ":status", "200")
			s.WriteData(id, false, []byte("hi"))
			s.answer(id, true, "x-a", "b")
		}), "", 200, []string{"response.body", "hi"}, 1},
		{"h2, gzip bomb", once(func(s *session, id uint32) {
			s.answer(id, false, ":status", "200", "content-encoding", "gzip")
			s.WriteData(id, true, squeezed)
		}), "", 200, []string{"response.body", "H4sI*", "response.body_cut", "true"}, 1},
		{"h2, NUL", once(func(s *session, id uint32) {
			s.answer(id, false, ":status", "200")
			s.WriteData(id, true, []byte("\x00"))
		}), "", 200, []string{"response.body", "AA==", "response.body_base64", "true"}, 1},
		{"h2, body then a reset", once(func(s *session, id uint32) {
			s.answer(id, false, ":status", "200")
			s.WriteData(id, false, []byte("short"))
			s.WriteRSTStream(id, http2.ErrCodeInternal)
		}), "", 200, nil, 1},
		{"h2, body shorter than its length", once(func(s *session, id uint32) {
			s.answer(id, false, ":status", "200", "content-length", "9")
			s.WriteData(id, true, []byte("hi"))
		}), "", 200, []string{"response.body", "hi"}, 1},
		{"h2, body longer than its length", once(func(s *session, id uint32) {
			s.answer(id, false, ":status", "200", "content-length", "2")
			s.WriteData(id, true, []byte("hi there"))
		}), "", 200, nil, 1},
		{"h2, body that never comes", once(func(s *session, id uint32) { s.answer(id, false, ":status", "200") }), "", 200, nil, 1},
		{"h2, body without end", once(func(s *session, id uint32) {
			s.answer(id, false, ":status", "200")
			go s.drain()
			for s.WriteData(id, false, zeros) == nil {
			}
		}), "", 200, []string{"response.body_cut", "true"}, 1},
		{"h2, body that drips", once(func(s *session, id uint32) {
			s.answer(id, false, ":status", "200")
			go s.drain()
			for tick := time.NewTicker(50 * time.Millisecond); s.WriteData(id, false, []byte("h")) == nil; <-tick.C {
			}
		}), "", 200, nil, 1},
		{"h2, empty DATA without end", repeats(func(s *session, id uint32) error {
			s.answer(id, false, ":status", "200")
			for {
				if err := s.WriteData(id, false, nil); err != nil {
					return err
				}
			}
		}), "", 200, nil, 1},
		{"h2, headers of 40 KiB", stuffs(40, true), "", 200, nil, 1},
		{"h2, PING without end", repeats(func(s *session, _ uint32) error { return s.WritePing(false, [8]byte{}) }), "protocol", 0, nil, 1},
		{"h2, SETTINGS without end", repeats(func(s *session, _ uint32) error { return s.WriteSettings() }), "protocol", 0, nil, 1},
		{"h2, WINDOW_UPDATE without end", repeats(func(s *session, _ uint32) error { return s.WriteWindowUpdate(0, 1) }), "protocol", 0, nil, 1},
		{"h2, GOAWAY, then an answer", once(func(s *session, id uint32) {
			s.WriteGoAway(id, http2.ErrCodeNo, nil)
			s.answer(id, true, ":status", "200")
		}), "", 200, nil, 1},
		{"h2, 103 without end", repeats(func(s *session, id uint32) error {
			return s.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: s.head(":status", "103", "link", strings.Repeat("a", 100)), EndHeaders: true})
		}), "protocol", 0, nil, 1},

		{"h2, 307", answers(":status", "307", "location", "/other?token=hush"), "http_3xx", 307, []string{"response.headers.location", "/other"}, 1},
		{"h2, 410", answers(":status", "410"), "permanent", 410, nil, 1},
		{"h2, 421", answers(":status", "421"), "http_4xx", 421, nil, 1},
		{"h2, 500", answers(":status", "500"), "http_5xx", 500, nil, 1},
		{"h2, 999", answers(":status", "999"), "protocol", 999, nil, 1},
		{"h2, 000", answers(":status", "000"), "protocol", 0, nil, 1},
		{"h2, 101", answers(":status", "101"), "protocol", 0, nil, 1},
		{"h2, status abc", answers(":status", "abc"), "protocol", 0, nil, 1},
		{"h2, no status", answers("x-a", "b"), "protocol", 0, nil, 1},
		{"h2, two statuses", answers(":status", "200", ":status", "500"), "protocol", 0, nil, 1},
		{"h2, header in capitals", answers(":status", "200", "X-A", "b"), "protocol", 0, nil, 1},
		{"h2, header with a line feed", answers(":status", "200", "x-a", "b\nc: d"), "protocol", 0, nil, 1},
		{"h2, 413 before the body is read", frames(func(s *session) {
			s.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
			s.answer(s.await(false), true, ":status", "413")
			s.drain()
		}), "http_4xx", 413, nil, 1},

		{"h2, GOAWAY", leaves(0, http2.ErrCodeNo, false), "connect", 0, nil, 1},
		{"h2, GOAWAY and a hang-up", leaves(0, http2.ErrCodeNo, true), "connect", 0, nil, 1},
		{"h2, GOAWAY PROTOCOL_ERROR", leaves(0, http2.ErrCodeProtocol, true), "connect", 0, nil, 1},
		{"h2, GOAWAY ENHANCE_YOUR_CALM", leaves(0, http2.ErrCodeEnhanceYourCalm, true), "connect", 0, nil, 1},
		{"h2, GOAWAY after ours", leaves(1, http2.ErrCodeInternal, true), "connect", 0, nil, 1},
		// Asked over HTTP/1.1 after that, it hangs up: what is no frame could be taken for the
		// head of a long one, of which the rest is then waited for.
		{"h2, GOAWAY at once", frames(func(s *session) {
			if s.spoken {
				s.WriteSettings()
				s.WriteGoAway(0, http2.ErrCodeNo, nil)
				s.drain()
			}
		}), "connect", 0, nil, upToOne},
		{"h2, RST NO_ERROR", abandons(http2.ErrCodeNo), "connect", 0, nil, 1},
		{"h2, RST PROTOCOL_ERROR", abandons(http2.ErrCodeProtocol), "connect", 0, nil, 1},
		{"h2, RST INTERNAL_ERROR", abandons(http2.ErrCodeInternal), "connect", 0, nil, 1},
		{"h2, RST FLOW_CONTROL_ERROR", abandons(http2.ErrCodeFlowControl), "connect", 0, nil, 1},
		{"h2, RST STREAM_CLOSED", abandons(http2.ErrCodeStreamClosed), "connect", 0, nil, 1},
		{"h2, RST REFUSED_STREAM", abandons(http2.ErrCodeRefusedStream), "connect", 0, nil, 1},
		{"h2, RST CANCEL", abandons(http2.ErrCodeCancel), "connect", 0, nil, 1},
		{"h2, RST ENHANCE_YOUR_CALM", abandons(http2.ErrCodeEnhanceYourCalm), "connect", 0, nil, 1},
		{"h2, RST HTTP_1_1_REQUIRED", abandons(http2.ErrCodeHTTP11Required), "connect", 0, nil, 1},
		{"h2, RST of no known code", abandons(4711), "connect", 0, nil, 1},
		{"h2, hang-up", once(func(s *session, _ uint32) { s.conn.Close() }), "connect", 0, nil, 1},
		{"h2, silence", once(func(*session, uint32) {}), "timeout", 0, nil, 1},
		// Its settings are waited for, and then it is asked without.
		{"h2, silence before SETTINGS", frames(func(s *session) { s.drain() }), "timeout", 0, nil, upToOne},
		{"h2, no window", frames(func(s *session) {
			s.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
			s.drain()
		}), "timeout", 0, nil, 1},
		{"h2, no streams", frames(func(s *session) {
			s.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 0})
			s.drain()
		}), "timeout or connect", 0, nil, upToOne},
		// Nothing has left by then, so it is asked over HTTP/1.1.
		{"h2, HTTP/1.1 instead", frames(func(s *session) {
			io.WriteString(s.conn, fine+"Content-Length: 0\r\n\r\n")
			io.Copy(io.Discard, s.conn)
		}), "", 200, nil, upToOne},
		{"h2, noise", once(func(s *session, _ uint32) { io.WriteString(s.conn, strings.Repeat("x", 1000)) }), "protocol", 0, nil, 1},
		{"h2, headers of 10 MiB", stuffs(10<<10, true), "protocol", 0, nil, 1},
		{"h2, headers without end", stuffs(1<<20, false), "protocol", 0, nil, 1},
		{"h2, headers that refer to one", once(references), "protocol", 0, nil, 1},
		{"h2, headers that are no HPACK", raw(http2.FrameHeaders, http2.FlagHeadersEndHeaders, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}), "protocol", 0, nil, 1},
		{"h2, frame beyond its bound", raw(http2.FrameData, 0, make([]byte, 1<<20)), "protocol", 0, nil, 1},
		{"h2, DATA before HEADERS", raw(http2.FrameData, 0, []byte("hi")), "protocol", 0, nil, 1},
		{"h2, CONTINUATION of nothing", raw(http2.FrameContinuation, 0, []byte{0x88}), "protocol", 0, nil, 1},
		{"h2, padding beyond the frame", raw(http2.FrameHeaders, http2.FlagHeadersPadded|http2.FlagHeadersEndHeaders, []byte{0xff, 0x88}), "protocol", 0, nil, 1},
		{"h2, window of nothing more", raw(http2.FrameWindowUpdate, 0, []byte{0, 0, 0, 0}), "protocol", 0, nil, 1},
		{"h2, window beyond its bound", raw(http2.FrameWindowUpdate, 0, []byte{0x7f, 0xff, 0xff, 0xff}), "protocol", 0, nil, 1},
		{"h2, promise", raw(http2.FramePushPromise, http2.FlagPushPromiseEndHeaders, []byte{0, 0, 0, 2, 0x88}), "protocol", 0, nil, 1},
		{"h2, SETTINGS of a stream", raw(http2.FrameSettings, 0, nil), "protocol", 0, nil, 1},
		{"h2, SETTINGS that are wrong", frames(func(s *session) {
			s.WriteSettings(http2.Setting{ID: http2.SettingMaxFrameSize, Val: 1})
			io.Copy(io.Discard, s.conn)
		}), "protocol or timeout", 0, nil, upToOne},
		{"h2, body beyond the window", once(func(s *session, id uint32) {
			s.answer(id, false, ":status", "200")
			for range 1000 {
				if s.WriteData(id, false, zeros) != nil {
					return
				}
			}
		}), "", 200, nil, 1},
	}
}
