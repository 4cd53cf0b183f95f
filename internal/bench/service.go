package bench

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// service is the program that is measured: a process of its own, with its defaults.
type service struct {
	cmd  *exec.Cmd
	base string // host:port
	ops  string // the same of its pprof
	log  *tail
	done chan struct{}
}

func startService(ctx context.Context, program, database string) (*service, error) {
	ops, err := freeAddress()
	if err != nil {
		return nil, err
	}
	key := make([]byte, 32)
	rand.Read(key)
	s := &service{cmd: exec.Command(program, "serve"), ops: ops, log: &tail{}, done: make(chan struct{})}
	s.cmd.Env = append(bare(os.Environ()), "DATABASE_URL="+database, "EVENTSVC_LISTEN=127.0.0.1:0", "EVENTSVC_OPS_LISTEN="+ops, "EVENTSVC_AUTH=off",
		"EVENTSVC_ALLOW_PRIVATE=127.0.0.0/8", "EVENTSVC_SECRET_KEY="+base64.StdEncoding.EncodeToString(key))
	s.cmd.Stderr = s.log
	dieWithParent(s.cmd)
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s serve: %w", program, err)
	}
	ready := make(chan string, 1)
	go func() {
		ready <- firstLine(out)
		s.cmd.Wait()
		close(s.done)
	}()
	select {
	case line := <-ready:
		if base, ok := strings.CutPrefix(line, "ready http://"); ok {
			s.base = base
			return s, nil
		}
	case <-ctx.Done():
	case <-time.After(30 * time.Second):
	}
	s.kill()
	return nil, fmt.Errorf("the service did not start: %s", s.log)
}

// firstLine reads a line, and lets what follows pass.
func firstLine(r io.Reader) string {
	var line []byte
	for one := make([]byte, 1); ; {
		if _, err := r.Read(one); err != nil || one[0] == '\n' {
			return string(line)
		}
		line = append(line, one[0])
	}
}

// bare is an environment without what would change the service.
func bare(environ []string) (kept []string) {
	for _, e := range environ {
		if !strings.HasPrefix(e, "EVENTSVC_") && !strings.HasPrefix(e, "DATABASE_URL=") && !strings.HasPrefix(e, "OTEL_") {
			kept = append(kept, e)
		}
	}
	return kept
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

func (s *service) pid() int { return s.cmd.Process.Pid }

// stop ends it as an operator would.
func (s *service) stop() {
	s.cmd.Process.Signal(os.Interrupt)
	select {
	case <-s.done:
	case <-time.After(10 * time.Second):
		s.kill()
	}
}

func (s *service) kill() {
	s.cmd.Process.Kill()
	<-s.done
}

// call makes a request of the API, for what is not measured.
func (s *service) call(ctx context.Context, method, path, body string) error {
	_, err := s.answer(ctx, method, path, body)
	return err
}

// answer is the beginning of what a request of the API is answered.
func (s *service) answer(ctx context.Context, method, path, body string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+s.base+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode > 299 {
		return nil, fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, text)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return text, err
}

// profile writes a CPU profile of the service to a file.
func (s *service) profile(ctx context.Context, span time.Duration, file string) error {
	req, err := http.NewRequestWithContext(ctx, "GET", fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", s.ops, max(1, int(span.Seconds()))), nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New("profile: " + resp.Status)
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, resp.Body)
	return errors.Join(err, f.Close())
}

// tail keeps the end of what a process says.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailBytes = 4 << 10

// Write takes it.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if over := len(t.text) - tailBytes; over > 0 {
		t.text = t.text[over:]
	}
	return len(p), nil
}

// String is the end.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.text))
}
