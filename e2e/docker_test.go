package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/testcontainers/testcontainers-go/modules/postgres"

	"github.com/testcontainers/testcontainers-go"
)

// engine skips a story where no container engine answers, unless it must.
func engine(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "docker", "info", "--format", "{{.ServerVersion}}").CombinedOutput()
	if err == nil {
		return
	}
	said := fmt.Sprintf("no container engine answers: %v: %s", err, strings.TrimSpace(string(out)))
	if os.Getenv("CI_EXPECT_DOCKER") != "" {
		t.Fatal(said)
	}
	t.Skip(said)
}

// The service over a PostgreSQL that testcontainers starts.
func TestTheServiceRunsOverAContainersDatabase(t *testing.T) {
	engine(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	c, err := postgres.Run(ctx, "postgres:18", postgres.WithDatabase("app"), postgres.WithUsername("app"), postgres.WithPassword("secret"), postgres.BasicWaitStrategies())
	testcontainers.CleanupContainer(t, c)
	if err != nil {
		t.Fatal(err)
	}
	url, err := c.ConnectionString(ctx, "sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	migrated := spawn(t, t.TempDir(), []string{"DATABASE_URL=" + url}, "migrate", "up")
	if code := migrated.exit(t); code != 0 {
		t.Fatalf("migrate up: exit code %d", code)
	}
	p, s := start(t, url, nil, "serve"), open(t, nil)
	p.declare(t, "r", `{"events":["*"],"url":"`+s.URL+`"}`)
	id := p.fire(t, "k", `{"type":"a.b","data":1}`).at("deliveries.0.id")
	s.next(t)
	p.settled(t, id, "succeeded")
}

// docker compose up, from a fresh checkout.
func TestComposeUpServesAndDelivers(t *testing.T) {
	engine(t)
	dir, project := checkout(t), fmt.Sprintf("eventsvc-e2e-%d", os.Getpid())
	port := freePort(t)
	compose := composeCommand(t)
	run := func(args ...string) (string, error) {
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, compose[0], append(append(compose[1:len(compose):len(compose)], "-p", project), args...)...)
		cmd.Dir = dir
		cmd.Env = append(bare(), fmt.Sprint("EVENTSVC_PORT=", port))
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	t.Cleanup(func() {
		if t.Failed() {
			logs, _ := run("logs", "--tail", "50")
			t.Log(logs)
		}
		if out, err := run("down", "-v", "--remove-orphans"); err != nil {
			t.Errorf("down: %v: %s", err, out)
		}
	})
	if out, err := run("up", "-d", "--build"); err != nil {
		t.Fatalf("up: %v: %s", err, out)
	}
	p := &process{base: fmt.Sprint("http://127.0.0.1:", port)}
	eventually(t, func() bool { a, err := p.try("GET", "/readyz", ""); return err == nil && a.status == 200 }, func() string { return "never ready" })

	container, err := run("ps", "-q", "eventsvc")
	if err != nil {
		t.Fatal(err, container)
	}
	hardened(t, strings.TrimSpace(container))

	// The receiver runs on the host, where the container reaches it by the gateway's name.
	got := make(chan http.Header, 1)
	receiver := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.Header }))
	receiver.Listener.Close()
	if receiver.Listener, err = net.Listen("tcp", net.JoinHostPort(gateway(t), "0")); err != nil {
		t.Fatal(err)
	}
	receiver.Start()
	defer receiver.Close()
	_, at, err := net.SplitHostPort(receiver.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	p.declare(t, "r", `{"events":["*"],"url":"http://host.docker.internal:`+at+`/"}`)
	id := p.fire(t, "k", `{"type":"a.b","data":1}`).at("deliveries.0.id")
	select {
	case h := <-got:
		if h.Get("Webhook-Id") != id || !strings.HasPrefix(h.Get("Webhook-Signature"), "v1,") {
			t.Errorf("got %v", h)
		}
	case <-time.After(30 * time.Second):
		t.Fatalf("no webhook arrives: %s", p.call(t, "GET", "/v1/deliveries/"+id, "").text)
	}
	p.settled(t, id, "succeeded")
}

// checkout copies what a clone would hold.
func checkout(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name := range strings.FieldsSeq(string(out)) {
		content, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			continue // deleted, but not yet committed so
		}
		to := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func composeCommand(t *testing.T) []string {
	t.Helper()
	if exec.Command("docker", "compose", "version").Run() == nil {
		return []string{"docker", "compose"}
	}
	if _, err := exec.LookPath("docker-compose"); err != nil {
		t.Fatal("there is an engine, but neither docker compose nor docker-compose")
	}
	return []string{"docker-compose"}
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// gateway is the host's address that host.docker.internal leads to: the engine's bridge
// where it runs on this machine, else loopback, to which a desktop engine forwards.
func gateway(t *testing.T) string {
	t.Helper()
	bridge, err := net.InterfaceByName("docker0")
	if err != nil {
		return "127.0.0.1"
	}
	addresses, err := bridge.Addrs()
	if err != nil || len(addresses) == 0 {
		t.Fatalf("the bridge has no address: %v", err)
	}
	ip, _, err := net.ParseCIDR(addresses[0].String())
	if err != nil {
		t.Fatal(err)
	}
	return ip.String()
}

// hardened looks at what the container may do.
func hardened(t *testing.T, container string) {
	t.Helper()
	out, err := exec.Command("docker", "inspect", container).Output()
	if err != nil {
		t.Fatal(err)
	}
	var seen []struct {
		Config     struct{ User string }
		HostConfig struct {
			ReadonlyRootfs bool
			CapDrop        []string
			SecurityOpt    []string
			PortBindings   map[string][]struct{ HostIp string }
		}
		State struct{ Health struct{ Status string } }
	}
	if err := json.Unmarshal(out, &seen); err != nil || len(seen) != 1 {
		t.Fatal(err)
	}
	c := seen[0]
	if c.Config.User != "65532:65532" || !c.HostConfig.ReadonlyRootfs || fmt.Sprint(c.HostConfig.CapDrop) != "[ALL]" ||
		!strings.Contains(fmt.Sprint(c.HostConfig.SecurityOpt), "no-new-privileges") {
		t.Errorf("not hardened: %+v", c)
	}
	for port, bindings := range c.HostConfig.PortBindings {
		for _, b := range bindings {
			if b.HostIp != "127.0.0.1" {
				t.Errorf("%s is bound to %q", port, b.HostIp)
			}
		}
	}
	eventually(t, func() bool {
		out, err := exec.Command("docker", "inspect", "--format", "{{.State.Health.Status}}", container).Output()
		return err == nil && strings.TrimSpace(string(out)) == "healthy"
	}, func() string { return "the image's own health check is never healthy" })
}
