package registry_test

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/pgtest"
	"github.com/eventsvc/eventsvc/internal/registry"
)

// order is an event with much to be asked about.
func order(data string) *registry.Occasion {
	return &registry.Occasion{Type: "order.placed", Data: []byte(data), Facts: event.Facts{
		Tenant: "acme", Subject: "order/1042", Actor: &event.Actor{Key: "u1"}, Metadata: map[string]string{"region": "eu"},
		OccurredAt: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC),
	}}
}

const placed = `{"total":150,"price":19.5,"big":9007199254740993,"huge":18446744073709551615,"lines":[{"sku":"a"},{"sku":"b"}],"note":null,"paid":true,"a.b":1}`

func TestAFilterSeesTheEventAsItWasFired(t *testing.T) {
	for text, want := range map[string]bool{
		`event.data.total > 100`:                                     true,
		`event.data.total > 100.5`:                                   true,
		`event.data.total > 150`:                                     false,
		`event.data.price == 19.5`:                                   true,
		`event.data.big == 9007199254740993`:                         true,
		`event.data.big == 9007199254740992`:                         false,
		`event.data.huge == 18446744073709551615u`:                   true,
		`event.data.lines.exists(l, l.sku == "b")`:                   true,
		`event.data.lines.all(l, l.sku == "b")`:                      false,
		`event.data.lines.filter(l, l.sku == "a").size() == 1`:       true,
		`event.data.note == null`:                                    true,
		`event.data.paid`:                                            true,
		`event.data["a.b"] == 1`:                                     true,
		`event.type.startsWith("order.")`:                            true,
		`event.tenant == "acme" && event.subject.matches("^order/")`: true,
		`event.actor.key in ["u1", "u2"]`:                            true,
		`event.metadata.region == "eu"`:                              true,
		`event.occurred_at < timestamp("2026-05-02T00:00:00Z")`:      true,
		`has(event.data.total)`:                                      true,
		`!has(event.data.gift)`:                                      true,
		`true`:                                                       true,
	} {
		f, err := registry.CompileFilter(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got, err := f.Judge(order(placed)); got != want || err != nil {
			t.Errorf("%s: got %v, %v", text, got, err)
		}
	}
}

// What the event does not have is no match, and no error either: producers leave out what
// does not apply.
func TestAMissingFieldIsNoMatch(t *testing.T) {
	for _, text := range []string{`event.data.gift`, `event.data.gift.name == "x"`, `!(event.data.gift == 1)`, `event.source == "shop"`, `event.metadata.colour == "red"`, `event.data.lines[0].price > 1`} {
		f, err := registry.CompileFilter(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got, err := f.Judge(order(placed)); got || err != nil {
			t.Errorf("%s: got %v, %v", text, got, err)
		}
	}
	f, err := registry.CompileFilter(`event.data.total > 1`)
	if err != nil {
		t.Fatal(err)
	}
	for _, data := range []string{`null`, `[]`, `"text"`, `7`, `{}`, `{"Total":5}`} {
		if got, err := f.Judge(order(data)); got || err != nil {
			t.Errorf("data %s: %v, %v", data, got, err)
		}
	}
}

func TestAFilterThatFailsIsNoMatch(t *testing.T) {
	for text, why := range map[string]string{
		`event.data.total > "100"`:  "no such overload",
		`event.data.total`:          "came to a int",
		`event.data.total / 0 == 1`: "division by zero",
		`event.data.lines.all(a, event.data.lines.all(b, event.data.lines.all(c, event.data.lines.all(d, event.data.lines.all(e, event.data.lines.all(f, event.data.lines.all(g, event.data.lines.all(h, event.data.lines.all(i, event.data.lines.all(j, event.data.lines.all(k, event.data.lines.all(l, a.sku + b.sku + c.sku + d.sku + e.sku + f.sku + g.sku + h.sku + i.sku + j.sku + k.sku + l.sku != "x"))))))))))))`: "cost limit",
	} {
		f, err := registry.CompileFilter(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got, err := f.Judge(order(placed)); got || err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: got %v, %v", text, got, err)
		}
	}
}

// What a match costs is known before it is made: its length times the size of its pattern.
func TestAMatchThatWouldTakeLongIsNotMade(t *testing.T) {
	for _, text := range []string{`event.data.s.matches("(x?){400}y")`, `matches(event.data.s, "(x?){400}y")`} {
		f, err := registry.CompileFilter(text)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if met, err := f.Judge(order(`{"s":"` + strings.Repeat("x", 200_000) + `"}`)); met || err == nil || !strings.Contains(err.Error(), "cost limit") {
			t.Errorf("%s: %v, %v", text, met, err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("%s took %s", text, took)
		}
		if met, err := f.Judge(order(`{"s":"xxxxy"}`)); !met || err != nil {
			t.Errorf("%s: %v, %v", text, met, err)
		}
	}
}

func TestAFilterThatCannotBeReadIsRefusedWithTheCaret(t *testing.T) {
	for text, want := range map[string]string{
		`event.data.total >`:           "does not compile: line 1, column 19: Syntax error: mismatched input '<EOF>'\nevent.data.total >\n                  ^",
		"event.type == 'a' &&\n  evnt": "does not compile: line 2, column 3: undeclared reference to 'evnt' (did you mean 'event'?)\n  evnt\n  ^",
		`event.tenent == "acme"`:       "does not compile: line 1, column 6: an event has no field \"tenent\" (did you mean tenant?); it has type, data, tenant, subject, source, occurred_at, actor, causation_id, metadata\nevent.tenent == \"acme\"\n     ^",
		``:                             "does not compile: line 1, column 1: ",
		`1 + 1`:                        "is of type int; a filter is true or false",
		`event.data.x.matches("(")`:    "column 22: error parsing regexp: missing closing ): `(`\n",
		`"x".matches(event.data.p)`:    "column 23: the pattern of matches must be written in the filter",
		`matches("x", "a" + "b")`:      "column 18: the pattern of matches must be written in the filter",
		`event.data.x.matches("` + strings.Repeat("x{1000}", 500) + `")`: "compiles to 500002 instructions; at most 2000 are allowed",
		`event.data.map(x, x).size()`:                                    "undeclared reference to 'map'",
		strings.Repeat("(", 3000) + "true" + strings.Repeat(")", 3000):   "is 6004 bytes long; at most 4096 are allowed",
		strings.Repeat("(", 2000) + "true" + strings.Repeat(")", 2000):   "recursion",
	} {
		_, err := registry.CompileFilter(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: got %v", text, err)
		}
	}
	pointers := flawsOf(t, func(d *registry.Declaration) { d.Filter = "event." })
	if !slices.Equal(pointers, []string{"/filter"}) {
		t.Errorf("the flaws of a declaration are at %v", pointers)
	}
	target := registry.TargetDeclaration{URL: "https://shop.example.com/hooks", Filter: "event."}
	if flaws := over(t, nil).CheckTarget("/targets/3", "acme", &target); len(flaws) != 1 || flaws[0].Pointer != "/targets/3/filter" {
		t.Errorf("the flaws of a target are %v", flaws)
	}
}

func TestOnlyEventsThatMeetEveryFilterAreOwed(t *testing.T) {
	r := over(t, pgtest.New(t))
	declare(t, r, "plain")
	declare(t, r, "large", func(d *registry.Declaration) { d.Filter = "event.data.total > 100" })
	declare(t, r, "fan", func(d *registry.Declaration) { d.URL, d.FanOut, d.Filter = "", true, "event.data.total > 10" })
	if _, err := r.DeclareTargets(t.Context(), "fan", []registry.NamedTarget{
		{Name: "eu", TargetDeclaration: registry.TargetDeclaration{URL: "https://eu.example.com/", Filter: `event.metadata.region == "eu"`}},
		{Name: "us", TargetDeclaration: registry.TargetDeclaration{URL: "https://us.example.com/", Filter: `event.metadata.region == "us"`}},
		{Name: "every", TargetDeclaration: registry.TargetDeclaration{URL: "https://every.example.com/"}},
	}, 0); err != nil {
		t.Fatal(err)
	}
	b := book(t, r)
	for data, want := range map[string][]string{
		`{"total":5}`:   {"plain"},
		`{"total":50}`:  {"fan eu", "fan every", "plain"},
		`{"total":500}`: {"fan eu", "fan every", "large", "plain"},
	} {
		var got []string
		matched, _ := b.Match(order(data))
		for _, t := range matched {
			got = append(got, strings.TrimSpace(t.Receiver.Key+" "+t.Name))
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", data, got, want)
		}
	}
}

// One tenant's filter must not keep an event from the others, nor fill the log, nor put
// what the event holds into it.
func TestAFailingFilterIsCountedAndTellsNothingOfTheEvent(t *testing.T) {
	r := over(t, pgtest.New(t))
	declare(t, r, "plain")
	declare(t, r, "broken", func(d *registry.Declaration) { d.Filter = `int(event.data.note) > 1` })
	var log bytes.Buffer
	b := r.NewBook(slog.New(slog.NewTextHandler(&log, nil)))
	if err := b.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		o := order(`{"note":"secret-4711"}`)
		for range 2 { // planned twice, judged once
			if matched, _ := b.Match(o); len(matched) != 1 || matched[0].Receiver.Key != "plain" {
				t.Fatalf("matched %v", matched)
			}
		}
	}
	if n := b.FilterErrors()["broken"]; n != 3 {
		t.Errorf("counted %d errors of 3", n)
	}
	if lines := strings.Count(log.String(), "\n"); lines != 1 || strings.Contains(log.String(), "4711") {
		t.Errorf("the log has %d lines: %s", lines, log.String())
	}
}

// A filter that an older or newer version wrote, and this one cannot read, must not let
// more through than was asked for.
func TestAStoredFilterThatCannotBeReadLetsNothingThrough(t *testing.T) {
	pool := pgtest.New(t)
	r := over(t, pool)
	declare(t, r, "plain")
	declare(t, r, "odd", func(d *registry.Declaration) { d.Filter = "event.data.total > 1" })
	if _, err := pool.Exec(t.Context(), `UPDATE eventsvc.receivers SET declaration = jsonb_set(declaration::jsonb, '{filter}', '"event.frobnicate("') WHERE key = 'odd'`); err != nil {
		t.Fatal(err)
	}
	matched, _ := book(t, r).Match(order(placed))
	if len(matched) != 1 || matched[0].Receiver.Key != "plain" {
		t.Errorf("matched %v", matched)
	}
}

func BenchmarkMatchWithFilters(b *testing.B) {
	r := over(b, pgtest.New(b))
	declare(b, r, "fan", func(d *registry.Declaration) { d.URL, d.FanOut, d.Filter = "", true, "event.data.total > 10" })
	targets := make([]registry.NamedTarget, 100)
	for i := range targets {
		targets[i] = registry.NamedTarget{Name: "t" + strings.Repeat("x", i), TargetDeclaration: registry.TargetDeclaration{URL: "https://shop.example.com/", Filter: "event.data.total > " + strings.Repeat("1", i%9+1)}}
	}
	if _, err := r.DeclareTargets(b.Context(), "fan", targets, 0); err != nil {
		b.Fatal(err)
	}
	known := book(b, r)
	b.ReportAllocs()
	for b.Loop() {
		known.Match(order(placed))
	}
}
