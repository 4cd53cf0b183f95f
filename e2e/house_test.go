// Package e2e tells stories about the real binary, over HTTP, from outside.
package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/eventsvc/eventsvc/internal/pgtest"
)

var binary string

// TestMain builds the binary once, beside the test binary: the go command removes that
// directory when the tests have ended, which nothing deferred here would live to do.
func TestMain(m *testing.M) {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	binary = filepath.Join(filepath.Dir(self), "eventsvc")
	if out, err := exec.Command("go", "build", "-o", binary, "../cmd/eventsvc").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the binary: %v\n%s", err, out)
		os.Exit(1)
	}
	pgtest.Main(m)
}

// process is a running eventsvc.
type process struct {
	cmd  *exec.Cmd
	base string // http://HOST:PORT
	// apart says that what is called is not the API, and so not documented.
	apart bool
	log   *buffer
	out   *buffer
	done  chan struct{}
}

// buffer is a process's output, which can be waited on. It is whole once done is closed.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
	grew chan struct{}
	done <-chan struct{}
}

func newBuffer(done <-chan struct{}) *buffer { return &buffer{grew: make(chan struct{}), done: done} }

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.grew)
	b.grew = make(chan struct{})
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// await returns once the output holds a part, and fails when it is too late for that.
func (b *buffer) await(t testing.TB, part string) {
	t.Helper()
	late := time.After(30 * time.Second)
	for {
		b.mu.Lock()
		found, grew := strings.Contains(b.text.String(), part), b.grew
		b.mu.Unlock()
		if found {
			return
		}
		select {
		case <-grew:
		case <-b.done:
			if !strings.Contains(b.String(), part) {
				t.Fatalf("ended without saying %q", part)
			}
		case <-late:
			t.Fatalf("never said %q", part)
		}
	}
}

// spawn starts the binary with an environment of its own.
func spawn(t testing.TB, dir string, env []string, args ...string) *process {
	t.Helper()
	done := make(chan struct{})
	p := &process{cmd: exec.Command(binary, args...), log: newBuffer(done), out: newBuffer(done), done: done}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, p.out, p.log
	p.cmd.Env = append(bare(), env...)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.cmd.Wait(); close(p.done) }()
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		<-p.done
		if t.Failed() {
			t.Logf("%v said:\n%s%s", args, p.out, p.log)
		}
	})
	return p
}

// bare is this process's environment without what would change eventsvc.
func bare() []string {
	var kept []string
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "EVENTSVC_") && !strings.HasPrefix(e, "DATABASE_URL=") && !strings.HasPrefix(e, "OTEL_") {
			kept = append(kept, e)
		}
	}
	return kept
}

// start starts a verb over a database and waits until it is ready.
func start(t testing.TB, url string, env []string, args ...string) *process {
	t.Helper()
	p := spawn(t, t.TempDir(), append([]string{"DATABASE_URL=" + url, "EVENTSVC_LISTEN=127.0.0.1:0", "EVENTSVC_AUTH=off", "EVENTSVC_ALLOW_PRIVATE=true"}, env...), args...)
	p.awaitReady(t)
	return p
}

func (p *process) awaitReady(t testing.TB) {
	t.Helper()
	p.out.await(t, "ready ")
	p.out.await(t, "\n")
	_, after, _ := strings.Cut(p.out.String(), "ready ")
	p.base, _, _ = strings.Cut(after, "\n")
}

// stop sends a signal and gives the exit code.
func (p *process) stop(t testing.TB, s syscall.Signal) int {
	t.Helper()
	p.cmd.Process.Signal(s)
	return p.exit(t)
}

func (p *process) exit(t testing.TB) int {
	t.Helper()
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(40 * time.Second):
		t.Fatal("the process does not end")
		return 0
	}
}

// answer is what the API said.
type answer struct {
	status int
	header http.Header
	text   string
	body   map[string]any
}

// at reads a value by a path such as "deliveries.0.status".
func (a answer) at(path string) string {
	var v any = a.body
	for part := range strings.SplitSeq(path, ".") {
		switch x := v.(type) {
		case map[string]any:
			v = x[part]
		case []any:
			var i int
			if _, err := fmt.Sscan(part, &i); err != nil || i >= len(x) {
				return ""
			}
			v = x[i]
		default:
			return ""
		}
	}
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}

func (a answer) list(name string) int {
	all, _ := a.body[name].([]any)
	return len(all)
}

// call makes one request. Headers come in pairs.
func (p *process) call(t testing.TB, method, path, body string, headers ...string) answer {
	t.Helper()
	a, err := p.try(method, path, body, headers...)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (p *process) try(method, path, body string, headers ...string) (answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, p.base+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Content-Type" {
			req.Header.Del("Content-Type")
		}
		req.Header.Add(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{}, err
	}
	return p.hear(resp)
}

// hear reads an answer to its end, and holds it against what is documented.
func (p *process) hear(resp *http.Response) (answer, error) {
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	a := answer{status: resp.StatusCode, header: resp.Header, text: string(text)}
	if strings.Contains(resp.Header.Get("Content-Type"), "json") {
		// Numbers as they are written: some are larger than any of Go's.
		exact := json.NewDecoder(bytes.NewReader(text))
		exact.UseNumber()
		if err := exact.Decode(&a.body); err != nil {
			return a, fmt.Errorf("%s answered no JSON: %w: %s", resp.Request.URL.Path, err, text)
		}
	}
	if err == nil && !p.apart {
		err = asDocumented(resp, text)
	}
	return a, err
}

func (p *process) declare(t testing.TB, key, fields string) answer {
	t.Helper()
	a := p.call(t, "PUT", "/v1/receivers/"+key, fields)
	if a.status != 201 && a.status != 200 {
		t.Fatalf("declare %s: %d %s", key, a.status, a.text)
	}
	return a
}

func (p *process) fire(t testing.TB, key, body string) answer {
	t.Helper()
	a := p.call(t, "POST", "/v1/events", body, "Idempotency-Key", key)
	if a.status != 201 {
		t.Fatalf("fire %s: %d %s", key, a.status, a.text)
	}
	return a
}

// settled waits until a delivery has a status.
func (p *process) settled(t testing.TB, id, status string) answer {
	t.Helper()
	var a answer
	eventually(t, func() bool {
		a = p.call(t, "GET", "/v1/deliveries/"+id, "")
		return a.at("status") == status
	}, func() string { return "delivery is not " + status + ": " + a.text })
	return a
}

// eventually asks until something holds.
func eventually(t testing.TB, holds func() bool, otherwise func() string) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(30 * time.Second); !holds(); {
		select {
		case <-tick.C:
		case <-late:
			t.Fatal(otherwise())
		}
	}
}

// webhook is one request as a receiver saw it.
type webhook struct {
	header http.Header
	body   []byte
}

// shop is a receiver with a script: what to answer to the nth request.
type shop struct {
	*httptest.Server
	got chan webhook
}

func open(t testing.TB, script func(n int, w http.ResponseWriter, r *http.Request)) *shop {
	t.Helper()
	s := &shop{got: make(chan webhook, 10_000)}
	var mu sync.Mutex
	n := 0
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil && !errors.Is(err, io.EOF) {
			return
		}
		mu.Lock()
		n++
		nth := n
		mu.Unlock()
		s.got <- webhook{r.Header.Clone(), body}
		if script != nil {
			script(nth, w, r)
		}
	}))
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s
}

func (s *shop) next(t testing.TB) webhook {
	t.Helper()
	select {
	case w := <-s.got:
		return w
	case <-time.After(30 * time.Second):
		t.Fatal("no webhook arrives")
		return webhook{}
	}
}

// lines are the lines of a text.
func lines(text string) (all []string) {
	for in := bufio.NewScanner(strings.NewReader(text)); in.Scan(); {
		all = append(all, in.Text())
	}
	return all
}
