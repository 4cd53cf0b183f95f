package e2e

import (
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eventsvc/eventsvc/internal/pgtest"
	"github.com/eventsvc/eventsvc/migrations"
)

// The README's tour: one command, the commands that it prints, pasted.
func TestTheNewcomersTour(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	p := spawn(t, dir, nil, "dev", "--listen", "127.0.0.1:0")
	p.awaitReady(t)
	p.out.await(t, "Stop: Ctrl-C")
	printed := curls(p.out.String())
	if len(printed) != 3 {
		t.Fatalf("printed %d commands: %s", len(printed), p.out)
	}
	for _, command := range printed[:2] {
		if out, err := exec.Command("sh", "-c", command).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", command, err, out)
		}
	}
	p.out.await(t, "inbox: order.placed arrived as dlv_")
	p.out.await(t, "signature verified")
	eventually(t, func() bool {
		out, err := exec.Command("sh", "-c", printed[2]).Output()
		return err == nil && strings.Contains(string(out), `"status":"succeeded"`)
	}, func() string { return "not succeeded" })

	second := spawn(t, dir, nil, "dev", "--listen", "127.0.0.1:0")
	if code := second.exit(t); code != 1 && code != 78 || !strings.Contains(second.log.String(), "another eventsvc") {
		t.Errorf("a second one in the same directory: exit code %d: %s", code, second.log)
	}
	if code := p.stop(t, syscall.SIGINT); code != 0 {
		t.Errorf("exit code %d after Ctrl-C, want 0", code)
	}
	again := spawn(t, dir, nil, "dev", "--listen", "127.0.0.1:0")
	again.awaitReady(t)
	if events := again.call(t, "GET", "/v1/events", ""); events.list("data") != 1 {
		t.Errorf("its data was not found again: %s", events.text)
	}
	if code := again.stop(t, syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d after SIGTERM, want 0", code)
	}
}

// curls are the commands in a text, whose lines may end in a backslash.
func curls(text string) (commands []string) {
	for line := range strings.SplitSeq(strings.ReplaceAll(text, "\\\n", " "), "\n") {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "curl ") {
			commands = append(commands, line)
		}
	}
	return commands
}

// A database that goes away costs time only.
func TestTheServiceOutlivesItsDatabase(t *testing.T) {
	t.Parallel()
	db := ownDatabase(t)
	p, s := start(t, db.URL(), []string{"EVENTSVC_AUTO_MIGRATE=true"}, "serve"), open(t, nil)
	p.declare(t, "r", `{"events":["*"],"url":"`+s.URL+`"}`)
	p.fire(t, "before", `{"type":"a.b","data":1}`)
	s.next(t)

	db.end()
	for range 3 {
		began := time.Now()
		a := p.call(t, "POST", "/v1/events", `{"type":"a.b","data":2}`, "Idempotency-Key", "during")
		if took := time.Since(began); a.status != 503 || a.at("code") != "service-unavailable" || a.header.Get("Retry-After") == "" ||
			a.header.Get("Content-Type") != "application/problem+json" || took > 2*time.Second {
			t.Errorf("%d %v %s after %v", a.status, a.header, a.text, took)
		}
	}
	eventually(t, func() bool { return p.call(t, "GET", "/readyz", "").status == 503 }, func() string { return "/readyz stays green" })
	if a := p.call(t, "GET", "/livez", ""); a.status != 200 {
		t.Errorf("/livez: %d", a.status)
	}

	db.begin(t)
	eventually(t, func() bool {
		a, err := p.try("POST", "/v1/events", `{"type":"a.b","data":2}`, "Idempotency-Key", "during")
		return err == nil && a.status == 201
	}, func() string { return "fires do not work again" })
	if w := s.next(t); !strings.Contains(string(w.body), `"data":2`) {
		t.Errorf("got %s", w.body)
	}
	eventually(t, func() bool { return p.call(t, "GET", "/readyz", "").status == 200 }, func() string { return "/readyz stays red" })
	if events := p.call(t, "GET", "/v1/events", ""); events.list("data") != 2 {
		t.Errorf("%s, want two events", events.text)
	}
}

func TestConfigurationErrorsExit78WithOneLine(t *testing.T) {
	t.Parallel()
	good := "DATABASE_URL=" + pgtest.URL(t)
	for name, c := range map[string]struct {
		env  []string
		verb string
		says []string
	}{
		"unknown setting":      {[]string{good, "EVENTSVC_RELAY_WORKER=3"}, "serve", []string{"EVENTSVC_RELAY_WORKER ", "did you mean EVENTSVC_RELAY_WORKERS"}},
		"no number":            {[]string{good, "EVENTSVC_BATCH=many"}, "serve", []string{"EVENTSVC_BATCH", "whole number"}},
		"out of range":         {[]string{good, "EVENTSVC_BATCH=0"}, "serve", []string{"EVENTSVC_BATCH", "1 to 5000"}},
		"no duration":          {[]string{good, "EVENTSVC_POLL=fast"}, "relay", []string{"EVENTSVC_POLL", "duration"}},
		"no boolean":           {[]string{good, "EVENTSVC_AUTO_MIGRATE=maybe"}, "serve", []string{"EVENTSVC_AUTO_MIGRATE", "true or false"}},
		"cap below base":       {[]string{good, "EVENTSVC_BACKOFF_CAP=1s"}, "serve", []string{"EVENTSVC_BACKOFF_CAP", "below"}},
		"bad prefix":           {[]string{good, "EVENTSVC_ALLOW_PRIVATE=10.0.0.1"}, "serve", []string{"EVENTSVC_ALLOW_PRIVATE", "CIDR"}},
		"bad proxy":            {[]string{good, "EVENTSVC_EGRESS_PROXY=socks5://u:hunter2@proxy.example.com"}, "serve", []string{"EVENTSVC_EGRESS_PROXY", "http or https URL"}},
		"bad key":              {[]string{good, "EVENTSVC_SECRET_KEY=abc"}, "serve", []string{"EVENTSVC_SECRET_KEY", "base64"}},
		"bad address":          {[]string{good, "EVENTSVC_LISTEN=8080"}, "serve", []string{"EVENTSVC_LISTEN", "host:port"}},
		"no database":          {nil, "serve", []string{"DATABASE_URL is not set"}},
		"no URL":               {[]string{"DATABASE_URL=postgres://u:hunter2@[/x"}, "serve", []string{"DATABASE_URL"}},
		"nobody may call":      {[]string{good}, "serve", []string{"EVENTSVC_ADMIN_KEY", "EVENTSVC_AUTH=off"}},
		"nothing migrated":     {[]string{"DATABASE_URL=" + pgtest.Empty(t), "EVENTSVC_AUTH=off"}, "serve", []string{"eventsvc migrate up"}},
		"nobody listens there": {[]string{"DATABASE_URL=postgres://u:hunter2@127.0.0.1:1/x", "EVENTSVC_AUTH=off"}, "serve", []string{"DATABASE_URL", "refused"}},
		"address in use":       {[]string{good, "EVENTSVC_AUTH=off", "EVENTSVC_LISTEN=192.0.2.1:1"}, "serve", []string{"EVENTSVC_LISTEN"}},
		"dev in the open":      {nil, "dev --listen 0.0.0.0:0", []string{"0.0.0.0:0", "EVENTSVC_ADMIN_KEY"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			p := spawn(t, t.TempDir(), c.env, strings.Fields(c.verb)...)
			if code, took := p.exit(t), time.Since(began); code != 78 || took > 15*time.Second {
				t.Errorf("exit code %d after %v, want 78 within 15 s", code, took)
			}
			var said []string
			for _, line := range lines(p.log.String()) {
				if !strings.HasPrefix(line, "{") { // the log
					said = append(said, line)
				}
			}
			if len(said) != 1 || !strings.HasPrefix(said[0], "eventsvc: configuration: ") {
				t.Fatalf("said %q, want one line", said)
			}
			for _, part := range c.says {
				if !strings.Contains(said[0], part) {
					t.Errorf("said %q, without %q", said[0], part)
				}
			}
			if strings.Contains(p.log.String(), "hunter2") {
				t.Error("a password was printed")
			}
		})
	}
}

func TestVerbsAndExitCodes(t *testing.T) {
	t.Parallel()
	url := pgtest.Empty(t)
	latest := latestMigration(t)
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"version", 0, "eventsvc "},
		{"openapi", 0, "openapi: 3.1"},
		{"migrate status", 0, "version 0 of " + latest + "\npending 0001_house.up.sql"},
		{"migrate up", 0, "version " + latest + " of " + latest},
		{"migrate up", 0, "version " + latest + " of " + latest},
		{"migrate down --steps " + latest, 0, "version 0 of " + latest},
		{"migrate up", 0, "version " + latest + " of " + latest},
		{"migrate repair", 0, "version " + latest + " of " + latest},
		{"healthcheck", 1, "does not answer"},
		{"serv", 2, "unknown command"},
		{"version now", 2, "takes no argument"},
		{"relay --lanes", 2, "unknown flag"},
		{"--help", 0, "Usage"},
	} {
		p := spawn(t, t.TempDir(), []string{"DATABASE_URL=" + url, "EVENTSVC_LISTEN=127.0.0.1:1"}, strings.Fields(c.args)...)
		if code := p.exit(t); code != c.code || !strings.Contains(p.out.String()+p.log.String(), c.says) {
			t.Errorf("%s: exit code %d, said %s%s; want %d and %q", c.args, code, p.out, p.log, c.code, c.says)
		}
	}
	p := start(t, url, nil, "serve")
	health := spawn(t, t.TempDir(), []string{"EVENTSVC_LISTEN=" + strings.TrimPrefix(p.base, "http://")}, "healthcheck")
	if code := health.exit(t); code != 0 {
		t.Errorf("healthcheck of a ready service: exit code %d", code)
	}
}

// latestMigration is the number of the newest migration there is.
func latestMigration(t *testing.T) string {
	t.Helper()
	names, err := fs.Glob(migrations.FS, "*.up.sql")
	if err != nil || len(names) == 0 {
		t.Fatalf("no migrations: %v", err)
	}
	return strconv.Itoa(len(names))
}
