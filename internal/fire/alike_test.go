package fire_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/fire"
	"github.com/eventsvc/eventsvc/internal/registry"
)

// texts are of every length about the bound, in characters of one byte and of more, with
// what controls and what does not.
var texts = rapid.OneOf(
	rapid.Just(""),
	rapid.String(),
	rapid.Custom(func(t *rapid.T) string {
		s := strings.Repeat(rapid.SampledFrom([]string{"a", "é", "\u2028", "😀"}).Draw(t, "unit"), 60)
		n := rapid.IntRange(250, 258).Draw(t, "length")
		for len(s) < n {
			s += "x"
		}
		return s
	}),
	rapid.Custom(func(t *rapid.T) string {
		return "a" + string(rapid.SampledFrom([]rune{0, 1, '\t', 0x1f, ' ', '~', 0x7f, 0x80, 0x9f, 0xa0, 0xad, 0x200b, 0x2028, 0xfeff, 0xfffd, 0x10ffff}).Draw(t, "character"))
	}),
)

var types = rapid.OneOf(
	rapid.StringMatching(`[a-z0-9_.]{1,12}`),
	rapid.StringMatching(`[A-Za-z.é -]{0,6}`),
	rapid.SampledFrom([]string{"a.b", "eventsvc", "eventsvc.x", "eventsvcs.x", "a\n", strings.Repeat("a", 128), strings.Repeat("a", 129), strings.Repeat("é", 64)}),
)

var drafts = rapid.Custom(func(t *rapid.T) *fire.Draft {
	d := &fire.Draft{Type: types.Draw(t, "type"), Data: []byte(rapid.SampledFrom([]string{`1`, `"\u0000"`, `{"a":{"a":1},"a":2}`, `"` + "\u2028" + `"`, `"\ud800"`, `1e999999`}).Draw(t, "data"))}
	// Most of an event is right, so that what is wrong is found alone.
	some := func(of string) string {
		if rapid.IntRange(0, 3).Draw(t, of+" given") > 0 {
			return ""
		}
		return texts.Draw(t, of)
	}
	d.Tenant, d.Subject, d.Source, d.CorrelationID, d.CausationID = some("tenant"), some("subject"), some("source"), some("correlation"), some("causation")
	if rapid.Bool().Draw(t, "actor given") {
		d.Actor = &event.Actor{Key: texts.Draw(t, "actor"), Label: some("label")}
	}
	if rapid.IntRange(0, 3).Draw(t, "suppress given") == 0 {
		d.Suppress = &event.Suppression{Reason: texts.Draw(t, "suppress")}
	}
	if n := rapid.SampledFrom([]int{0, 0, 1, 50, 51}).Draw(t, "entries"); n > 0 {
		d.Metadata = map[string]string{}
		for i := range n - 1 {
			d.Metadata["k"+strconv.Itoa(i)] = "v"
		}
		d.Metadata[texts.Draw(t, "name")] = texts.Draw(t, "value")
	}
	return d
})

// Two languages tell the rules of an event: they tell the same ones.
func TestSQLRefusesAnEventIfAndOnlyIfItsCheckDoes(t *testing.T) {
	o := open(t)
	encoded := func(given bool, v any) *string {
		if !given {
			return nil
		}
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		s := string(b)
		return &s
	}
	rapid.Check(t, func(rt *rapid.T) {
		d := drafts.Draw(rt, "draft")
		var reason *string
		if d.Suppress != nil {
			reason = &d.Suppress.Reason
		}
		_, err := o.pool.Exec(t.Context(), `SELECT eventsvc.fire($1::text, $2::text, tenant => $3::text, subject => $4::text, source => $5::text, correlation_id => $6::text, causation_id => $7::text, actor => $8::jsonb, metadata => $9::jsonb, suppress => $10::text)`,
			d.Type, string(d.Data), d.Tenant, d.Subject, d.Source, d.CorrelationID, d.CausationID, encoded(d.Actor != nil, d.Actor), encoded(len(d.Metadata) > 0, d.Metadata), reason)
		if flaws := d.Check(); (err == nil) != (flaws.Err() == nil) {
			rt.Fatalf("SQL says %v and the check %v, of %+v with metadata %q, actor %+v and suppress %+v", err, flaws.Err(), d, slices.Sorted(maps.Keys(d.Metadata)), d.Actor, d.Suppress)
		}
	})
	// What was stored is matched as it is: none of it is refused later.
	if err := o.MatchAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := o.count(t, `SELECT count(*) FROM eventsvc.unmatched`); n != 0 {
		t.Errorf("%d events are refused by the matching", n)
	}
}

// Which inline receivers an event concerns is told in both languages too.
func TestSQLFindsTheInlineReceiversThatMatchingFinds(t *testing.T) {
	o := open(t)
	wants := map[string]registry.Declaration{}
	for key, patterns := range map[string][]event.Pattern{"all": {"*"}, "below": {"a.*"}, "one": {"a.b"}, "deep": {"a.b.*", "b"}, "like": {"a_.*"}} {
		for _, tenant := range []string{"", "x"} {
			d := registry.Declaration{Events: patterns, Mode: event.Inline, Tenant: tenant}
			wants[key+tenant] = d
			o.declare(t, key+tenant, d)
		}
	}
	for _, kind := range []string{"a", "a.b", "a.b.c", "ab", "ab.c", "a_.c", "a.bb", "b", "b.a"} {
		for _, tenant := range []string{"", "x", "y"} {
			var want []string
			for key, d := range wants {
				if (&event.Receiver{Patterns: d.Events, Tenant: d.Tenant}).Wants(kind, tenant) {
					want = append(want, key)
				}
			}
			var got []string
			if err := o.pool.QueryRow(t.Context(), `SELECT coalesce(array_agg(key), '{}') FROM eventsvc.inline_receivers($1, nullif($2, ''))`, kind, tenant).Scan(&got); err != nil {
				t.Fatal(err)
			}
			slices.Sort(want)
			slices.Sort(got)
			if !slices.Equal(want, got) {
				t.Errorf("%s of %q: SQL finds %v, want %v", kind, tenant, got, want)
			}
		}
	}
}
