package registry_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/pgtest"
	"github.com/eventsvc/eventsvc/internal/registry"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

var quiet = slog.New(slog.DiscardHandler)

func key(b byte) []byte { return bytes.Repeat([]byte{b}, registry.SealKeySize) }

func sealer(t testing.TB, keys ...[]byte) *registry.Sealer {
	t.Helper()
	s, err := registry.NewSealer(keys...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func over(t testing.TB, pool *pgxpool.Pool) *registry.Registry {
	t.Helper()
	return registry.New(pool, registry.Options{Sealer: sealer(t, key(1)), CheckURL: func(u string) error {
		if strings.Contains(u, "denied") {
			return errors.New("is denied")
		}
		return nil
	}, Defaults: registry.Defaults{MaxAttempts: 20, Curve: event.Curve{Base: 2 * time.Second, Cap: time.Hour}, MaxRetryAfter: 24 * time.Hour}})
}

func declaration(change ...func(*registry.Declaration)) registry.Declaration {
	d := registry.Declaration{Events: []event.Pattern{"*"}, URL: "https://shop.example.com/"}
	for _, f := range change {
		f(&d)
	}
	return d
}

func declare(t testing.TB, r *registry.Registry, name string, change ...func(*registry.Declaration)) registry.Put {
	t.Helper()
	put, err := r.Declare(t.Context(), name, declaration(change...), 0)
	if err != nil {
		t.Fatal(err)
	}
	return put
}

func book(t testing.TB, r *registry.Registry) *registry.Book {
	t.Helper()
	b := r.NewBook(quiet)
	if err := b.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

func revision(t testing.TB, pool *pgxpool.Pool) (n int64) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), `SELECT revision FROM eventsvc.registry`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestDeclaringIsIdempotent(t *testing.T) {
	pool := pgtest.New(t)
	r := over(t, pool)
	first := declare(t, r, "k")
	before := revision(t, pool)
	again := declare(t, r, "k")
	if !first.Created || first.Secret == nil || again.Created || again.Secret != nil || again.Receiver.Version != 1 || revision(t, pool) != before {
		t.Errorf("got %+v, then %+v, revision %d after %d", first, again, revision(t, pool), before)
	}
	changed := declare(t, r, "k", func(d *registry.Declaration) { d.Description = "x" })
	if changed.Created || changed.Receiver.Version != 2 || changed.Secret != nil || revision(t, pool) == before {
		t.Errorf("changed: %+v", changed)
	}
}

func TestIfMatchStopsAnUnnoticedOverwrite(t *testing.T) {
	r := over(t, pgtest.New(t))
	if _, err := r.Declare(t.Context(), "k", declaration(), 1); !errors.Is(err, registry.ErrChanged) {
		t.Errorf("one that is not there: %v", err)
	}
	declare(t, r, "k")
	d := declaration(func(d *registry.Declaration) { d.Description = "x" })
	if _, err := r.Declare(t.Context(), "k", d, 2); !errors.Is(err, registry.ErrChanged) {
		t.Errorf("another version: %v", err)
	}
	if put, err := r.Declare(t.Context(), "k", d, 1); err != nil || put.Receiver.Version != 2 {
		t.Errorf("its version: %+v, %v", put, err)
	}
	if _, err := r.Remove(t.Context(), "k", 1, nil); !errors.Is(err, registry.ErrChanged) {
		t.Errorf("remove another version: %v", err)
	}
}

func TestSecretsAreSealedInTheTableAndOpenedInTheBook(t *testing.T) {
	pool := pgtest.New(t)
	r := over(t, pool)
	made := declare(t, r, "k").Secret
	given := event.Secret(bytes.Repeat([]byte{7}, 24))
	put := declare(t, r, "given", func(d *registry.Declaration) { d.Secret = new(given.Reveal()) })
	rows, err := pool.Query(t.Context(), `SELECT sealed FROM eventsvc.secrets ORDER BY id`)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
	if err != nil || len(stored) != 2 {
		t.Fatal(len(stored), err)
	}
	for i, secret := range []event.Secret{made, given} {
		if bytes.Contains(stored[i], secret[:8]) {
			t.Error("a secret lies open in the table")
		}
	}
	b := book(t, r)
	if got := b.Find("given", "").Signers; len(got) != 1 || !bytes.Equal(got[0].Secret, given) || !bytes.Equal(put.Secret, given) {
		t.Errorf("got %v", got)
	}
	if got := b.Find("k", "").Signers; len(got) != 1 || !bytes.Equal(got[0].Secret, made) || len(made) != 32 {
		t.Errorf("got %v", got)
	}
	if _, err := r.Declare(t.Context(), "given", declaration(func(d *registry.Declaration) { d.Secret = new(made.Reveal()) }), 0); !errors.Is(err, registry.ErrSecretSet) {
		t.Errorf("another secret in a declaration: %v", err)
	}
	if _, err := r.Declare(t.Context(), "given", declaration(func(d *registry.Declaration) { d.Secret = new(given.Reveal()) }), 0); err != nil {
		t.Errorf("its own secret in a declaration: %v", err)
	}
}

func TestASealIsBoundToItsTargetAndKey(t *testing.T) {
	secret := event.Secret(bytes.Repeat([]byte{9}, 32))
	one := sealer(t, key(1))
	box := one.Seal(5, secret)
	if got, err := one.Open(5, box); err != nil || !bytes.Equal(got, secret) {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := one.Open(6, box); !errors.Is(err, registry.ErrSealed) {
		t.Errorf("another target's box: %v", err)
	}
	if _, err := sealer(t, key(2)).Open(5, box); !errors.Is(err, registry.ErrSealed) {
		t.Errorf("another key: %v", err)
	}
	for _, broken := range [][]byte{nil, {1}, box[:10], append(bytes.Clone(box[:len(box)-1]), 0), {9, 9, 9}} {
		if _, err := one.Open(5, broken); !errors.Is(err, registry.ErrSealed) {
			t.Errorf("%x: %v", broken, err)
		}
	}
	rotated := sealer(t, key(2), key(1))
	if got, err := rotated.Open(5, box); err != nil || !bytes.Equal(got, secret) {
		t.Errorf("after rotation: %v, %v", got, err)
	}
	if _, err := sealer(t, key(2)).Open(5, rotated.Seal(5, secret)); err != nil {
		t.Errorf("rotation does not seal with the newest key: %v", err)
	}
	if got, err := one.Open(5, sealer(t).Seal(5, secret)); err != nil || !bytes.Equal(got, secret) {
		t.Errorf("stored before there was a key: %v, %v", got, err)
	}
}

// A declaration is in force in every process after its answer.
func TestAnotherProcesssBookReachesEveryChange(t *testing.T) {
	pool := pgtest.New(t)
	r := over(t, pool)
	b := book(t, over(t, pool))
	reach := func() {
		t.Helper()
		if err := b.Reach(t.Context(), revision(t, pool)); err != nil {
			t.Fatal(err)
		}
	}
	matches := func() int { all, _ := b.Match(occasion("a.b", "")); return len(all) }
	declare(t, r, "k")
	if matches() != 0 {
		t.Fatal("matched what it has not read")
	}
	reach()
	if matches() != 1 || b.Find("k", "").Receiver.MaxAttempts != 20 {
		t.Error("the declaration was not reached")
	}
	n := 3
	declare(t, r, "k", func(d *registry.Declaration) { d.MaxAttempts = &n; d.Lane = "mail" })
	reach()
	if got := b.Find("k", "").Receiver; got.MaxAttempts != 3 || got.Lane != "mail" {
		t.Errorf("got %+v", got)
	}
	for _, paused := range []bool{true, false} {
		if _, err := r.Pause(t.Context(), "k", paused); err != nil {
			t.Fatal(err)
		}
		reach()
		if b.Find("k", "").Paused != paused {
			t.Errorf("paused is not %v", paused)
		}
	}
	id := b.Find("k", "").ID
	if _, err := r.Remove(t.Context(), "k", 0, func(context.Context, pgx.Tx, []event.TargetID) error { return nil }); err != nil {
		t.Fatal(err)
	}
	reach()
	if matches() != 0 || !b.Target(id).Deleted {
		t.Error("the deletion was not reached")
	}
	if put := declare(t, r, "k"); !put.Created || put.Secret == nil {
		t.Errorf("declared again: %+v", put)
	}
	reach()
	if matches() != 1 || b.Find("k", "").ID != id || len(b.Find("k", "").Signers) != 1 {
		t.Error("declared again, it is not the same receiver with one new secret")
	}
}

func TestARemovalThatCannotBeSettledLeavesEverything(t *testing.T) {
	r := over(t, pgtest.New(t))
	declare(t, r, "k")
	refused := errors.New("still owed")
	if _, err := r.Remove(t.Context(), "k", 0, func(context.Context, pgx.Tx, []event.TargetID) error { return refused }); !errors.Is(err, refused) {
		t.Errorf("got %v", err)
	}
	if _, err := r.Find(t.Context(), "k"); err != nil {
		t.Errorf("gone: %v", err)
	}
	if _, err := r.Remove(t.Context(), "none", 0, nil); !errors.Is(err, registry.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

func TestOneStoredDeclarationThatCannotBeReadStopsNoOther(t *testing.T) {
	pool := pgtest.New(t)
	r := over(t, pool)
	declare(t, r, "bad")
	declare(t, r, "good")
	if _, err := pool.Exec(t.Context(), `UPDATE eventsvc.receivers SET declaration = '{"events": 7}' WHERE key = 'bad'`); err != nil {
		t.Fatal(err)
	}
	if all, _ := book(t, r).Match(occasion("a.b", "")); len(all) != 1 || all[0].Receiver.Key != "good" {
		t.Errorf("got %v", all)
	}
}

// P3: what it wants can be read, so it is owed it, and what it is owed says why it fails.
func TestADeclarationThatIsDamagedElsewhereStillMatchesWhatItWants(t *testing.T) {
	pool := pgtest.New(t)
	r := over(t, pool)
	declare(t, r, "bad")
	if _, err := pool.Exec(t.Context(), `UPDATE eventsvc.receivers SET declaration = declaration || '{"timeout": 7}'`); err != nil {
		t.Fatal(err)
	}
	b := book(t, r)
	all, _ := b.Match(occasion("a.b", ""))
	if len(all) != 1 || !all[0].Unreadable || !strings.Contains(all[0].Unusable, "timeout") {
		t.Errorf("got %+v", all)
	}
	if _, err := pool.Exec(t.Context(), `UPDATE eventsvc.receivers SET declaration = declaration || '{"tenant": 7}'`); err != nil {
		t.Fatal(err)
	}
	if all, _ := book(t, r).Match(occasion("a.b", "7")); len(all) != 0 {
		t.Errorf("whose events it may see cannot be read, and it is owed %+v", all)
	}
}

// P3: a process with a wrong key matches the receiver, and can make no request to it.
func TestATargetWhoseSecretCannotBeOpenedIsMatchedAndSaysSo(t *testing.T) {
	pool := pgtest.New(t)
	declare(t, over(t, pool), "k")
	for name, s := range map[string]*registry.Sealer{"another key": sealer(t, key(2)), "no key": sealer(t)} {
		b := book(t, registry.New(pool, registry.Options{Sealer: s}))
		if all, _ := b.Match(occasion("a.b", "")); len(all) != 1 || b.Target(all[0].ID).Unusable == "" || b.Target(all[0].ID).Unreadable || len(all[0].Signers) != 0 {
			t.Errorf("%s: got %+v", name, all)
		}
	}
	if all, _ := book(t, over(t, pool)).Match(occasion("a.b", "")); len(all) != 1 || all[0].Unusable != "" {
		t.Errorf("its own key: got %+v", all)
	}
}

func TestNoStatusIsPermanentWhereNoneIsDeclared(t *testing.T) {
	r := over(t, pgtest.New(t))
	declare(t, r, "none", func(d *registry.Declaration) { d.PermanentStatuses = []int{} })
	declare(t, r, "left-out")
	b := book(t, r)
	if got := b.Find("none", "").Receiver.PermanentStatuses; len(got) != 0 {
		t.Errorf("declared none, got %v", got)
	}
	if got := b.Find("left-out", "").Receiver.PermanentStatuses; len(got) != 1 || got[0] != 410 {
		t.Errorf("declared nothing, got %v", got)
	}
}

func TestConcurrentDeclarationsTakeTurns(t *testing.T) {
	r := over(t, pgtest.New(t))
	var mu sync.Mutex
	created := map[string]int{}
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			for _, name := range []string{"same", fmt.Sprint("k", i)} {
				put, err := r.Declare(t.Context(), name, declaration(func(d *registry.Declaration) { d.Description = fmt.Sprint(i) }), 0)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				if put.Created {
					created[name]++
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if len(created) != 17 || created["same"] != 1 {
		t.Errorf("created %v", created)
	}
	if list, err := r.List(t.Context(), "", "k", 100); err != nil || len(list) != 17 || list[0].Key != "k0" {
		t.Errorf("listed %d, %v", len(list), err)
	}
}

func ptr[T any](v T) *T { return &v }

func TestEveryRuleOfADeclarationNamesItsField(t *testing.T) {
	r := over(t, nil)
	dur := func(d time.Duration) *event.Duration { return ptr(event.Duration(d)) }
	for name, c := range map[string]struct {
		change  func(*registry.Declaration)
		pointer string // "": it is good
	}{
		"as it is":              {func(*registry.Declaration) {}, ""},
		"no events":             {func(d *registry.Declaration) { d.Events = nil }, "/events"},
		"200 events":            {func(d *registry.Declaration) { d.Events = make([]event.Pattern, 200); fill(d.Events) }, ""},
		"201 events":            {func(d *registry.Declaration) { d.Events = make([]event.Pattern, 201); fill(d.Events) }, "/events"},
		"a bad pattern":         {func(d *registry.Declaration) { d.Events = []event.Pattern{"a", "*.b"} }, "/events/1"},
		"no url":                {func(d *registry.Declaration) { d.URL = "" }, "/url"},
		"denied url":            {func(d *registry.Declaration) { d.URL = "http://denied" }, "/url"},
		"bad secret":            {func(d *registry.Declaration) { d.Secret = new("x") }, "/secret"},
		"mode":                  {func(d *registry.Declaration) { d.Mode = "later" }, "/mode"},
		"site":                  {func(d *registry.Declaration) { d.Site = "tasks" }, "/site"},
		"timeout of pulled":     {func(d *registry.Declaration) { d.Site, d.URL, d.Timeout = "task", "", duration(time.Second) }, "/timeout"},
		"lease of pulled":       {func(d *registry.Declaration) { d.Site, d.URL, d.Lease = "task", "", duration(5*time.Second) }, "/lease"},
		"format":                {func(d *registry.Declaration) { d.Format = "xml" }, "/format"},
		"lane":                  {func(d *registry.Declaration) { d.Lane = "a b" }, "/lane"},
		"long tenant":           {func(d *registry.Declaration) { d.Tenant = strings.Repeat("t", 256) }, "/tenant"},
		"tenant":                {func(d *registry.Declaration) { d.Tenant = strings.Repeat("t", 255) }, ""},
		"control":               {func(d *registry.Declaration) { d.Description = "a\x1b[1m" }, "/description"},
		"attempts 0":            {func(d *registry.Declaration) { d.MaxAttempts = ptr(0) }, "/max_attempts"},
		"attempts 1":            {func(d *registry.Declaration) { d.MaxAttempts = ptr(1) }, ""},
		"attempts 1001":         {func(d *registry.Declaration) { d.MaxAttempts = ptr(1001) }, "/max_attempts"},
		"concurrency 0":         {func(d *registry.Declaration) { d.MaxConcurrency = ptr(0) }, "/max_concurrency"},
		"base 0":                {func(d *registry.Declaration) { d.BackoffBase = dur(0) }, "/backoff_base"},
		"cap 0":                 {func(d *registry.Declaration) { d.BackoffCap = dur(0) }, "/backoff_cap"},
		"cap below base":        {func(d *registry.Declaration) { d.BackoffBase, d.BackoffCap = dur(2), dur(1) }, "/backoff_cap"},
		"cap is base":           {func(d *registry.Declaration) { d.BackoffBase, d.BackoffCap = dur(2), dur(2) }, ""},
		"cap alone, below":      {func(d *registry.Declaration) { d.BackoffCap = dur(1) }, ""},
		"base alone, above":     {func(d *registry.Declaration) { d.BackoffBase = dur(9 * time.Hour) }, ""},
		"give up 0":             {func(d *registry.Declaration) { d.GiveUpAfter = dur(0) }, "/give_up_after"},
		"uncounted, no bound":   {func(d *registry.Declaration) { d.CountDeferrals = ptr(false) }, "/count_deferrals"},
		"uncounted, bounded":    {func(d *registry.Declaration) { d.CountDeferrals, d.GiveUpAfter = ptr(false), dur(1) }, ""},
		"timeout 0":             {func(d *registry.Declaration) { d.Timeout = dur(0) }, "/timeout"},
		"timeout 5m":            {func(d *registry.Declaration) { d.Timeout = dur(5 * time.Minute) }, ""},
		"timeout above":         {func(d *registry.Declaration) { d.Timeout = dur(5*time.Minute + 1) }, "/timeout"},
		"lease 0":               {func(d *registry.Declaration) { d.Lease = dur(0) }, "/lease"},
		"lease at its bound":    {func(d *registry.Declaration) { d.Timeout, d.Lease = dur(10*time.Second), dur(15*time.Second) }, "/lease"},
		"lease above its bound": {func(d *registry.Declaration) { d.Timeout, d.Lease = dur(10*time.Second), dur(15*time.Second+1) }, ""},
		"status 299":            {func(d *registry.Declaration) { d.PermanentStatuses = []int{410, 299} }, "/permanent_statuses/1"},
		"status 300":            {func(d *registry.Declaration) { d.PermanentStatuses = []int{300, 599} }, ""},
		"header":                {func(d *registry.Declaration) { d.Headers = map[string]string{"X-A": "a b\tc"} }, ""},
		"header host":           {func(d *registry.Declaration) { d.Headers = map[string]string{"hOST": "a"} }, "/headers/hOST"},
		"header webhook":        {func(d *registry.Declaration) { d.Headers = map[string]string{"webhook-x": "a"} }, "/headers/webhook-x"},
		"header idempotency":    {func(d *registry.Declaration) { d.Headers = map[string]string{"x-idempotency-key": "a"} }, "/headers/x-idempotency-key"},
		"header name":           {func(d *registry.Declaration) { d.Headers = map[string]string{"a b": "a"} }, "/headers/a b"},
		"header value":          {func(d *registry.Declaration) { d.Headers = map[string]string{"a": "a\r\nb: c"} }, "/headers/a"},
		"header twice":          {func(d *registry.Declaration) { d.Headers = map[string]string{"x-a": "a", "X-A": "b"} }, "/headers/x-a"},
		"header too long":       {func(d *registry.Declaration) { d.Headers = map[string]string{"a": strings.Repeat("v", 4097)} }, "/headers/a"},
		"metadata":              {func(d *registry.Declaration) { d.Metadata = map[string]string{"a": "\x00"} }, "/metadata/a"},
	} {
		d := declaration(c.change)
		err := r.Check(&d)
		var flaws event.Flaws
		errors.As(err, &flaws)
		if c.pointer == "" && err != nil || c.pointer != "" && (len(flaws) != 1 || flaws[0].Pointer != c.pointer) {
			t.Errorf("%s: got %v, want %q", name, err, c.pointer)
		}
	}
}

func fill(p []event.Pattern) {
	for i := range p {
		p[i] = "a.b"
	}
}

func TestKeysOfReceivers(t *testing.T) {
	for k, good := range map[string]bool{"a": true, "shop.mail-2_x": true, strings.Repeat("k", 255): true, "": false, strings.Repeat("k", 256): false, ".a": false, "a/b": false, "a b": false, "é": false} {
		if err := registry.CheckKey(k, ""); (err == nil) != good {
			t.Errorf("%q: %v", k, err)
		}
	}
}

func TestEveryStatementSuitsTheSchemaAndSaysWhatItDoes(t *testing.T) {
	pgtest.Statements(t, "registry")
}
