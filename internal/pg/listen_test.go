package pg_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventsvc/eventsvc/internal/pg"
	"github.com/eventsvc/eventsvc/internal/pgtest"
)

// heardTests returns once n more nonces went over the channel.
func heardTests(t *testing.T, conn *pgx.Conn, n int) {
	t.Helper()
	for n > 0 {
		limited, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		got, err := conn.WaitForNotification(limited)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(got.Payload, "?") {
			n--
		}
	}
}

func listening(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	if _, err := conn.Exec(t.Context(), `LISTEN eventsvc_wake`); err != nil {
		t.Fatal(err)
	}
	return conn
}

func TestWhatAProcessSendsItselfWakesNobody(t *testing.T) {
	url := pgtest.URL(t)
	pool, spy := pgtest.Open(t, url), listening(t, url)
	heard := ears(t, pg.NewBell(pool, quiet), url)
	await(t, heard, "the connection")
	other := pg.NewBell(pool, quiet)
	other.TestEvery(20 * time.Millisecond)
	await(t, ears(t, other, url), "the other's connection")
	heardTests(t, spy, 10)
	if len(heard) != 0 {
		t.Errorf("woken %d times", len(heard))
	}
}

func TestADeafListenerSaysSoOnce(t *testing.T) {
	url := pgtest.URL(t)
	spy := listening(t, url)
	var said bytes.Buffer
	bell := pg.NewBell(pgtest.Open(t, url), slog.New(slog.NewTextHandler(&said, nil)))
	bell.TestEvery(100 * time.Millisecond)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	pooled := pgtest.StartPooler(t, url).URL()
	go func() { bell.Listen(ctx, pooled, func() {}, func() {}); close(ended) }()
	heardTests(t, spy, 5)
	stop()
	<-ended
	if n := strings.Count(said.String(), "LISTEN is deaf"); n != 1 || !bell.Deaf() {
		t.Errorf("said so %d times: %s", n, said.String())
	}
}

func TestAListenerThatHearsItselfIsNotDeafUntilItIsCutOff(t *testing.T) {
	url := pgtest.URL(t)
	pool := pgtest.Open(t, url)
	bell := pg.NewBell(pool, quiet)
	if !bell.Deaf() {
		t.Error("heard something before it listened")
	}
	heard := ears(t, bell, url)
	await(t, heard, "the connection")
	until(t, "it hears itself", func() bool { return !bell.Deaf() })
	if _, err := pool.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'eventsvc/listen' AND datname = current_database()`); err != nil {
		t.Fatal(err)
	}
	until(t, "it is cut off", bell.Deaf)
	await(t, heard, "the connection after it was cut")
	until(t, "it hears itself again", func() bool { return !bell.Deaf() })
	if len(heard) != 0 {
		t.Error("its own tests woke it")
	}
}

func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(10 * time.Second); !holds(); {
		select {
		case <-tick.C:
		case <-late:
			t.Fatal("never: " + what)
		}
	}
}
