package registry_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/pgtest"
	"github.com/eventsvc/eventsvc/internal/registry"
)

// calling is a registry whose functions may be of these schemas.
func calling(t testing.TB, pool *pgxpool.Pool, schemas ...string) *registry.Registry {
	t.Helper()
	return registry.New(pool, registry.Options{Sealer: sealer(t, key(1)), FunctionSchemas: schemas, CheckURL: func(string) error { return errors.New("no address is to be asked of") }})
}

func function(name string) func(*registry.Declaration) {
	return func(d *registry.Declaration) { d.URL, d.Function = "", name }
}

func TestAReceiverHasOneDestination(t *testing.T) {
	r := calling(t, nil, "app", "other")
	for name, c := range map[string]struct {
		change  func(*registry.Declaration)
		pointer string // "": it is good
	}{
		"a function":          {func(*registry.Declaration) {}, ""},
		"of another schema":   {func(d *registry.Declaration) { d.Function = "other.f_2" }, ""},
		"as a role":           {func(d *registry.Declaration) { d.Role = "shop_1" }, ""},
		"and a url":           {func(d *registry.Declaration) { d.URL = "https://shop.example.com/" }, "/function"},
		"and fan_out":         {func(d *registry.Declaration) { d.FanOut = true }, "/function"},
		"no schema":           {func(d *registry.Declaration) { d.Function = "f" }, "/function"},
		"too many parts":      {func(d *registry.Declaration) { d.Function = "app.f.g" }, "/function"},
		"capitals":            {func(d *registry.Declaration) { d.Function = "app.Ship" }, "/function"},
		"quotes":              {func(d *registry.Declaration) { d.Function = `app."f"` }, "/function"},
		"more than a name":    {func(d *registry.Declaration) { d.Function = "app.f(); DROP TABLE x" }, "/function"},
		"too long":            {func(d *registry.Declaration) { d.Function = "app." + strings.Repeat("f", 64) }, "/function"},
		"a schema not listed": {func(d *registry.Declaration) { d.Function = "public.f" }, "/function"},
		"a role that is none": {func(d *registry.Declaration) { d.Role = "none" }, "/role"},
		"a role with quotes":  {func(d *registry.Declaration) { d.Role = `"x"` }, "/role"},
		"a format":            {func(d *registry.Declaration) { d.Format = event.FormatRaw }, "/format"},
		"headers":             {func(d *registry.Declaration) { d.Headers = map[string]string{"x": "y"} }, "/headers"},
		"statuses":            {func(d *registry.Declaration) { d.PermanentStatuses = []int{} }, "/permanent_statuses"},
		"a trace":             {func(d *registry.Declaration) { d.Trace = ptr(true) }, "/trace"},
		"a role without one":  {func(d *registry.Declaration) { d.FanOut, d.Function, d.Role = true, "", "x" }, "/role"},
		"nothing at all":      {func(d *registry.Declaration) { d.Function = "" }, "/url"},
	} {
		d := declaration(function("app.f"), c.change)
		var flaws event.Flaws
		err := r.Check(&d)
		errors.As(err, &flaws)
		if c.pointer == "" && err != nil || c.pointer != "" && (len(flaws) != 1 || flaws[0].Pointer != c.pointer) {
			t.Errorf("%s: got %v, want %q", name, err, c.pointer)
		}
	}
}

func TestTheRefusalOfASchemaNamesTheSetting(t *testing.T) {
	for want, schemas := range map[string][]string{"EVENTSVC_FUNCTION_SCHEMAS=app would": nil, "EVENTSVC_FUNCTION_SCHEMAS=x,app would": {"x"}} {
		d := declaration(function("app.f"))
		if err := calling(t, nil, schemas...).Check(&d); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v", err)
		}
	}
	for name, good := range map[string]bool{"app": true, "_a1": true, "eventsvc": false, "pg_catalog": false, "information_schema": false, "App": false, "a-b": false, "": false} {
		if err := registry.CheckFunctionSchema(name); (err == nil) != good {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestAFunctionIsLookedForWhenItIsDeclared(t *testing.T) {
	pool := pgtest.New(t)
	r := calling(t, pool, "app")
	refused := func(d registry.Declaration) (pointers []string) {
		_, err := r.Declare(t.Context(), "k", d, 0)
		var flaws event.Flaws
		if errors.As(err, &flaws); err != nil && flaws == nil {
			t.Fatal(err)
		}
		for _, f := range flaws {
			pointers = append(pointers, f.Pointer)
		}
		return pointers
	}
	for _, sql := range []string{`CREATE SCHEMA app`, `CREATE FUNCTION app.f(jsonb) RETURNS void LANGUAGE sql AS ''`, `CREATE FUNCTION app.f(json, jsonb) RETURNS void LANGUAGE sql AS ''`,
		`CREATE PROCEDURE app.f(jsonb, jsonb) LANGUAGE sql AS ''`} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
		if got := refused(declaration(function("app.f"))); !slices.Equal(got, []string{"/function"}) {
			t.Errorf("after %s: %v", sql, got)
		}
	}
	if _, err := pool.Exec(t.Context(), `DROP PROCEDURE app.f; CREATE FUNCTION app.f(event jsonb, context jsonb) RETURNS int LANGUAGE sql AS 'SELECT 1'`); err != nil {
		t.Fatal(err)
	}
	as := func(role string) func(*registry.Declaration) { return func(d *registry.Declaration) { d.Role = role } }
	if got := refused(declaration(function("app.f"), as("nobody_of_that_name"))); !slices.Equal(got, []string{"/role"}) {
		t.Errorf("an unknown role: %v", got)
	}
	if got := refused(declaration(function("app.f"), as("pg_monitor"))); got != nil {
		t.Errorf("refused: %v", got)
	}
	found, err := r.Find(t.Context(), "k")
	if d, _ := found.Declared(); err != nil || d.Function != "app.f" || d.Role != "pg_monitor" || d.URL != "" {
		t.Errorf("found %+v, %v", d, err)
	}
	to := book(t, r).Find("k", "")
	if to.Receiver.Function != "app.f" || to.Receiver.Role != "pg_monitor" || to.Receiver.MaxConcurrency != 4 || to.Unusable != "" {
		t.Errorf("in the book: %+v, %+v", to, to.Receiver)
	}
	// A process that is not allowed to call it owes it its events, and says why it fails.
	b := book(t, calling(t, pool))
	if to := b.Find("k", ""); !strings.Contains(to.Unusable, "EVENTSVC_FUNCTION_SCHEMAS=app would allow it") || to.Unreadable {
		t.Errorf("got %+v", to)
	}
	if all, _ := b.Match(occasion("a.b", "")); len(all) != 1 {
		t.Errorf("%d are owed it", len(all))
	}
}

func TestAReceiverMovesBetweenAnAddressAndAFunction(t *testing.T) {
	pool := pgtest.New(t)
	r := registry.New(pool, registry.Options{Sealer: sealer(t, key(1)), FunctionSchemas: []string{"app"}, CheckURL: func(string) error { return nil }})
	if _, err := pool.Exec(t.Context(), `CREATE SCHEMA app; CREATE FUNCTION app.f(event jsonb, context jsonb) RETURNS int LANGUAGE sql AS 'SELECT 1'`); err != nil {
		t.Fatal(err)
	}
	first := declare(t, r, "k")
	called := declare(t, r, "k", function("app.f"))
	again := declare(t, r, "k", function("app.f"))
	back := declare(t, r, "k")
	for i, put := range []registry.Put{first, called, again, back} {
		d, _ := put.Receiver.Declared()
		if function := i == 1 || i == 2; (d.Function != "") != function || (d.URL == "") != function || put.Receiver.TargetID != first.Receiver.TargetID {
			t.Errorf("declaration %d: %+v", i, d)
		}
	}
	if called.Receiver.Version != again.Receiver.Version {
		t.Error("the same declaration again is another version")
	}
}
