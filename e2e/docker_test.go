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
	c := compose(t, nil)
	hardened(t, c.container(t, "eventsvc"))
	at, got := c.outside(t)
	c.declare(t, "r", `{"events":["*"],"url":"`+at+`"}`)
	id := c.fire(t, "k", `{"type":"a.b","data":1}`).at("deliveries.0.id")
	if h := c.arrived(t, got, id); h.Get("Webhook-Id") != id || !strings.HasPrefix(h.Get("Webhook-Signature"), "v1,") {
		t.Errorf("got %v", h)
	}
	c.settled(t, id, "succeeded")
}

// The profile nats: a broker and a worker, each killed and started again.
func TestComposeRunsWorkersOverNATS(t *testing.T) {
	engine(t)
	standInForNATS(t)
	c := compose(t, []string{"EVENTSVC_NATS_URL=nats://nats:4222"}, "--profile", "nats")
	hardened(t, c.container(t, "worker"))
	at, got := c.outside(t)
	c.declare(t, "r", `{"events":["*"],"site":"task","url":"`+at+`"}`)
	for _, key := range []string{"before", "after"} {
		id := c.fire(t, key, `{"type":"a.b","data":1}`).at("deliveries.0.id")
		if h := c.arrived(t, got, id); h.Get("Webhook-Id") != id {
			t.Errorf("%s: got %v", key, h)
		}
		c.settled(t, id, "succeeded")
		for _, service := range []string{"nats", "worker"} {
			container := c.container(t, service)
			for _, verb := range []string{"kill", "start"} {
				if out, err := exec.Command("docker", verb, container).CombinedOutput(); err != nil {
					t.Fatalf("%s %s: %v: %s", verb, service, err, out)
				}
			}
		}
	}
}

// composed is the service as docker compose runs it.
type composed struct {
	*process
	run func(args ...string) (string, error)
}

// compose brings a project up, with an environment and flags, and waits until it is ready.
func compose(t *testing.T, env []string, flags ...string) *composed {
	t.Helper()
	dir, port := checkout(t), freePort(t)
	command := append(composeCommand(t), "-p", fmt.Sprintf("eventsvc-e2e-%d", os.Getpid()))
	command = append(command, flags...)
	c := &composed{process: &process{base: fmt.Sprint("http://127.0.0.1:", port)}}
	c.run = func(args ...string) (string, error) {
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, command[0], append(command[1:len(command):len(command)], args...)...)
		cmd.Dir = dir
		cmd.Env = append(append(bare(), fmt.Sprint("EVENTSVC_PORT=", port)), env...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	t.Cleanup(func() {
		if t.Failed() {
			logs, _ := c.run("logs", "--tail", "50")
			t.Log(logs)
		}
		if out, err := c.run("down", "-v", "--remove-orphans"); err != nil {
			t.Errorf("down: %v: %s", err, out)
		}
	})
	if out, err := c.run("up", "-d", "--build"); err != nil {
		t.Fatalf("up: %v: %s", err, out)
	}
	eventually(t, func() bool { a, err := c.try("GET", "/readyz", ""); return err == nil && a.status == 200 }, func() string { return "never ready" })
	return c
}

func (c *composed) container(t *testing.T, service string) string {
	t.Helper()
	id, err := c.run("ps", "-q", service)
	if err != nil {
		t.Fatal(err, id)
	}
	return strings.TrimSpace(id)
}

// outside is a receiver on the host, which containers reach by the gateway's name.
func (c *composed) outside(t *testing.T) (url string, got <-chan http.Header) {
	t.Helper()
	heard := make(chan http.Header, 100)
	receiver := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { heard <- r.Header }))
	receiver.Listener.Close()
	var err error
	if receiver.Listener, err = net.Listen("tcp", net.JoinHostPort(gateway(t), "0")); err != nil {
		t.Fatal(err)
	}
	receiver.Start()
	t.Cleanup(receiver.Close)
	_, port, err := net.SplitHostPort(receiver.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return "http://host.docker.internal:" + port + "/", heard
}

func (c *composed) arrived(t *testing.T, got <-chan http.Header, id string) http.Header {
	t.Helper()
	select {
	case h := <-got:
		return h
	case <-time.After(30 * time.Second):
		t.Fatalf("no webhook arrives: %s", c.call(t, "GET", "/v1/deliveries/"+id, "").text)
		return nil
	}
}

// standInForNATS builds the broker from its own module under the name that the compose file
// gives it, where no registry can be asked for the image.
func standInForNATS(t *testing.T) {
	t.Helper()
	file, err := os.ReadFile("../docker-compose.yml")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(file), "image: nats:")
	tag, _, _ := strings.Cut(rest, "\n")
	image := "nats:" + tag
	if exec.Command("docker", "image", "inspect", image).Run() == nil || exec.Command("docker", "pull", "-q", image).Run() == nil {
		return
	}
	dir := t.TempDir()
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "nats-server"), "github.com/nats-io/nats-server/v2")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build nats-server: %v: %s", err, out)
	}
	if err := os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte("FROM scratch\nCOPY nats-server /nats-server\nENTRYPOINT [\"/nats-server\"]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("docker", "build", "-q", "-t", image, dir).CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v: %s", image, err, out)
	}
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
