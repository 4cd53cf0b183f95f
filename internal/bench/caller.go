package bench

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"strconv"
	"time"
)

// caller is one connection of the load: HTTP/1.1 written and read by hand, since
// net/http would use more CPU for the asking than the service does for the answer.
type caller struct {
	conn net.Conn
	in   *bufio.Reader
	out  []byte
	head string // of every request, as far as it is the same
	body []byte // the last answer's, kept only where it was asked for
}

const callTimeout = 30 * time.Second

func newCaller(address, path string) (*caller, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	return &caller{conn: conn, in: bufio.NewReaderSize(conn, 8<<10),
		head: "POST " + path + " HTTP/1.1\r\nHost: " + address + "\r\nContent-Type: application/json\r\n"}, nil
}

func (c *caller) close() { c.conn.Close() }

// post makes one request and reads the answer. key may be "".
func (c *caller) post(key string, body []byte, keep bool) (status int, err error) {
	c.out = append(c.out[:0], c.head...)
	if key != "" {
		c.out = append(append(append(c.out, "Idempotency-Key: "...), key...), "\r\n"...)
	}
	c.out = strconv.AppendInt(append(c.out, "Content-Length: "...), int64(len(body)), 10)
	c.out = append(append(c.out, "\r\n\r\n"...), body...)
	c.conn.SetDeadline(time.Now().Add(callTimeout))
	if _, err := c.conn.Write(c.out); err != nil {
		return 0, err
	}
	return c.answer(keep)
}

var errNoAnswer = errors.New("this is no HTTP/1.1 answer")

func (c *caller) answer(keep bool) (status int, err error) {
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) {
		return 0, errNoAnswer
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, errNoAnswer
	}
	length, chunked := int64(0), false
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch {
		case bytes.EqualFold(name, []byte("content-length")):
			if length, err = strconv.ParseInt(string(bytes.TrimSpace(value)), 10, 64); err != nil {
				return 0, errNoAnswer
			}
		case bytes.EqualFold(name, []byte("transfer-encoding")):
			chunked = true
		}
	}
	c.body = c.body[:0]
	if !chunked {
		return status, c.take(length, keep)
	}
	return status, c.chunks(keep)
}

// chunks reads a body in chunks, which has no trailer.
func (c *caller) chunks(keep bool) error {
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return err
		}
		size, err := strconv.ParseInt(string(bytes.TrimRight(line, "\r\n")), 16, 64)
		if err != nil {
			return errNoAnswer
		}
		if err := c.take(size, keep); err != nil {
			return err
		}
		if _, err := c.in.Discard(len("\r\n")); err != nil || size == 0 {
			return err
		}
	}
}

func (c *caller) take(n int64, keep bool) error {
	if !keep {
		_, err := c.in.Discard(int(n))
		return err
	}
	from := len(c.body)
	c.body = append(c.body, make([]byte, n)...)
	_, err := io.ReadFull(c.in, c.body[from:])
	return err
}
