package access_test

import (
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/eventsvc/eventsvc/internal/access"
	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/pg"
	"github.com/eventsvc/eventsvc/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestEveryStatementSuitsTheSchemaAndSaysWhatItDoes(t *testing.T) { pgtest.Statements(t, "access") }

const admin = "esk_0123456789abcdef"

func issue(t testing.TB, k *access.Keys, d access.Draft) (access.Key, string) {
	t.Helper()
	if d.Name == "" {
		d.Name = "shop"
	}
	if d.Scopes == nil {
		d.Scopes = []access.Scope{access.Read}
	}
	if err := d.Check(time.Now()).Err(); err != nil {
		t.Fatal(err)
	}
	key, opens, err := k.Issue(t.Context(), access.Operator("operator"), d)
	if err != nil {
		t.Fatal(err)
	}
	return key, opens
}

func exec(t testing.TB, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

func TestTheGateOpensToTheOperatorsKeyAndToLiveKeysAlone(t *testing.T) {
	pool := pgtest.New(t)
	keys := access.NewKeys(pool)
	g := access.NewGate(admin, keys)
	issued, opens := issue(t, keys, access.Draft{Name: "shop", Scopes: []access.Scope{access.EventsWrite}, Tenant: "north", Rate: access.Rate{PerSecond: 7}})
	for header, who := range map[string]string{
		"Bearer " + admin: "operator", "bearer  " + admin + " ": "operator", "Bearer " + opens: "shop", "BEARER " + opens: "shop",
		"": "", "Bearer": "", "Bearer ": "", "Bearer " + admin[:19]: "", "Bearer " + admin + "0": "", "Basic " + admin: "", admin: "", opens: "",
		"Bearer " + opens[:46]: "", "Bearer " + opens[:46] + "!": "", "Bearer esk_" + strings.Repeat("A", 43): "", "Bearer " + issued.Prefix: "",
	} {
		c, err := g.Authenticate(t.Context(), header)
		if who == "" && !errors.Is(err, access.ErrUnauthorized) || who != "" && (err != nil || c.Name != who) {
			t.Errorf("%q: %+v, %v; want %q", header, c, err, who)
		}
	}
	c, err := g.Authenticate(t.Context(), "Bearer "+opens)
	if err != nil || c.Number != issued.Number || c.Producer < 1 || c.Owner != "shop" || c.ID != issued.ID || c.Tenant != "north" || c.Rate != (access.Rate{PerSecond: 7, Burst: 7}) ||
		!c.May(access.EventsWrite) || c.May(access.Read) || c.May(access.Admin) {
		t.Errorf("got %+v, %v", c, err)
	}
	if c, err := (&access.Gate{}).Authenticate(t.Context(), ""); err != nil || c.Producer != 0 || !c.May(access.Admin) {
		t.Errorf("an open gate: %+v, %v", c, err)
	}
}

func TestAdminHoldsEveryScopeAndNoOtherHoldsMoreThanItself(t *testing.T) {
	for _, has := range access.Scopes {
		c := access.Caller{Key: access.Key{Scopes: []access.Scope{has}}}
		for _, s := range access.Scopes {
			if want := s == has || has == access.Admin; c.May(s) != want {
				t.Errorf("%s opens %s: %v", has, s, !want)
			}
		}
	}
	operator := access.Operator("operator")
	if !operator.May(access.Admin) || !operator.May(access.EventsWrite) {
		t.Error("the operator may not do everything")
	}
}

// Another gate stands for another process: it shares nothing but the database.
func TestARevokedKeyIsRefusedByEveryProcessAtOnce(t *testing.T) {
	pool := pgtest.New(t)
	keys := access.NewKeys(pool)
	here, there := access.NewGate(admin, keys), access.NewGate("", access.NewKeys(pgtest.Open(t, pool.Config().ConnString())))
	key, opens := issue(t, keys, access.Draft{})
	for range 3 {
		for _, g := range []*access.Gate{here, there} {
			if _, err := g.Authenticate(t.Context(), "Bearer "+opens); err != nil {
				t.Fatal(err)
			}
		}
	}
	revoked, err := keys.Revoke(t.Context(), access.Operator("operator"), key.ID)
	if err != nil || revoked.RevokedAt == nil {
		t.Fatal(revoked, err)
	}
	for _, g := range []*access.Gate{here, there} {
		if _, err := g.Authenticate(t.Context(), "Bearer "+opens); !errors.Is(err, access.ErrUnauthorized) {
			t.Errorf("a revoked key: %v", err)
		}
	}
	again, err := keys.Revoke(t.Context(), access.Operator("operator"), key.ID)
	if err != nil || !again.RevokedAt.Equal(*revoked.RevokedAt) {
		t.Errorf("revoked again: %+v, %v", again, err)
	}
	if _, err := keys.Revoke(t.Context(), access.Operator("operator"), event.NewID(time.Now())); !errors.Is(err, access.ErrNotFound) {
		t.Errorf("an unknown key: %v", err)
	}
}

func TestAKeyEndsWhenItsTimeIsOverByTheDatabasesClock(t *testing.T) {
	pool := pgtest.New(t)
	keys := access.NewKeys(pool)
	g := access.NewGate("", keys)
	_, opens := issue(t, keys, access.Draft{ExpiresAt: time.Now().Add(time.Hour)})
	if _, err := g.Authenticate(t.Context(), "Bearer "+opens); err != nil {
		t.Fatal(err)
	}
	exec(t, pool, `UPDATE eventsvc.api_keys SET expires_at = now()`)
	if _, err := g.Authenticate(t.Context(), "Bearer "+opens); !errors.Is(err, access.ErrUnauthorized) {
		t.Errorf("got %v", err)
	}
	if any, err := keys.Any(t.Context()); err != nil || any {
		t.Errorf("there is still a key: %v, %v", any, err)
	}
}

func TestNothingThatIsKeptOpens(t *testing.T) {
	pool := pgtest.New(t)
	keys := access.NewKeys(pool)
	key, opens := issue(t, keys, access.Draft{})
	if _, err := keys.Revoke(t.Context(), access.Operator("operator"), key.ID); err != nil {
		t.Fatal(err)
	}
	var kept string
	if err := pool.QueryRow(t.Context(), `SELECT (SELECT string_agg(k::text, '') FROM eventsvc.api_keys k) || (SELECT string_agg(a::text, '') FROM eventsvc.audit a)`).Scan(&kept); err != nil {
		t.Fatal(err)
	}
	list, err := keys.List(t.Context(), event.ID{}, 10)
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	shown, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	secret := opens[len(key.Prefix):]
	for _, text := range []string{kept, string(shown)} {
		if strings.Contains(text, secret) || !strings.Contains(text, key.Prefix) {
			t.Errorf("%s in %s", opens, text)
		}
	}
	if len(opens) != 47 || !strings.HasPrefix(opens, "esk_") || len(key.Prefix) > 12 {
		t.Errorf("%s begins with %s", opens, key.Prefix)
	}
}

// DB-12: for want of the database nobody is told that their key is wrong.
func TestWhileTheDatabaseIsAwayNobodyIsRefused(t *testing.T) {
	pool := pgtest.New(t)
	keys := access.NewKeys(pool)
	_, opens := issue(t, keys, access.Draft{})
	gone := pgtest.Open(t, pool.Config().ConnString())
	g := access.NewGate(admin, access.NewKeys(gone))
	gone.Close()
	for _, key := range []string{opens, "esk_" + strings.Repeat("A", 43)} {
		if _, err := g.Authenticate(t.Context(), "Bearer "+key); !pg.Unavailable(err) || errors.Is(err, access.ErrUnauthorized) {
			t.Errorf("got %v", err)
		}
	}
	if c, err := g.Authenticate(t.Context(), "Bearer "+admin); err != nil || !c.May(access.Admin) {
		t.Errorf("the operator needs no row: %v", err)
	}
}

// However many call at once, each gets the answer of a look-up that began after its call.
func TestCallsAtOnceShareLookUpsAndNeverAnOldAnswer(t *testing.T) {
	pool := pgtest.New(t)
	keys := access.NewKeys(pool)
	g := access.NewGate("", keys)
	const n = 8
	opens, ids := make([]string, n), make([]event.ID, n)
	for i := range n {
		key, o := issue(t, keys, access.Draft{})
		opens[i], ids[i] = o, key.ID
	}
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			for range 50 {
				if c, err := g.Authenticate(t.Context(), "Bearer "+opens[i]); err != nil || c.ID != ids[i] {
					t.Errorf("key %d: %+v, %v", i, c, err)
					return
				}
			}
			if _, err := keys.Revoke(t.Context(), access.Operator("operator"), ids[i]); err != nil {
				t.Error(err)
			}
			if _, err := g.Authenticate(t.Context(), "Bearer "+opens[i]); !errors.Is(err, access.ErrUnauthorized) {
				t.Errorf("key %d after it was revoked: %v", i, err)
			}
		})
	}
	all.Wait()
}

func TestTheLastUseIsKnownToSomeMinutes(t *testing.T) {
	pool := pgtest.New(t)
	keys := access.NewKeys(pool)
	g := access.NewGate("", keys)
	_, opens := issue(t, keys, access.Draft{})
	use := func() time.Time {
		t.Helper()
		if _, err := g.Authenticate(t.Context(), "Bearer "+opens); err != nil {
			t.Fatal(err)
		}
		// It is noted after the answer, by whoever looked up.
		for late := time.Now().Add(10 * time.Second); time.Now().Before(late); {
			list, err := keys.List(t.Context(), event.ID{}, 1)
			if err != nil {
				t.Fatal(err)
			}
			if at := list[0].LastUsedAt; at != nil && time.Since(*at) < time.Minute {
				return *at
			}
		}
		t.Fatal("the use was not noted")
		return time.Time{}
	}
	first := use()
	if again := use(); !again.Equal(first) {
		t.Errorf("noted within minutes: %s, then %s", first, again)
	}
	exec(t, pool, `UPDATE eventsvc.api_keys SET last_used_at = now() - interval '6 minutes'`)
	if later := use(); !later.After(first) {
		t.Errorf("not noted again: %s", later)
	}
}

func TestABadDraftIsToldEverythingThatIsWrong(t *testing.T) {
	d := access.Draft{
		Name: "a\nb", Scopes: []access.Scope{"read", "read", "write", "admin"}, Tenant: "north",
		ExpiresAt: time.Now().Add(-time.Second), Rate: access.Rate{PerSecond: 0, Burst: -1},
	}
	got := d.Check(time.Now()).Error()
	for _, want := range []string{"/name", "/scopes/1 is given twice", "/scopes/2 is no scope", "/scopes/3 cannot be had", "/expires_at is past", "/rate/per_second", "/rate/burst"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q does not tell %q", got, want)
		}
	}
	if got := (&access.Draft{}).Check(time.Now()); len(got) != 2 {
		t.Errorf("an empty draft: %v", got)
	}
}

func BenchmarkAuthenticate(b *testing.B) {
	keys := access.NewKeys(pgtest.New(b))
	g := access.NewGate("", keys)
	key, opens, err := keys.Issue(b.Context(), access.Operator("operator"), access.Draft{Name: "shop", Scopes: []access.Scope{access.Read}})
	if err != nil {
		b.Fatal(key, err)
	}
	for _, callers := range []int{1, 64} {
		b.Run(map[int]string{1: "one", 64: "many"}[callers], func(b *testing.B) {
			b.SetParallelism(max(callers/2, 1))
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					if _, err := g.Authenticate(b.Context(), "Bearer "+opens); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}
