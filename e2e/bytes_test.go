package e2e

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"pgregory.net/rapid"

	"github.com/eventsvc/eventsvc/internal/pgtest"
)

// deepest is how many levels of arrays and objects data may have.
const deepest = 256

var (
	space   = rapid.SampledFrom([]string{"", "", "", " ", "\t", "\r\n", "  \n "})
	numbers = rapid.OneOf(
		rapid.SampledFrom([]string{"9223372036854775807", "-9223372036854775808", "18446744073709551616", "9007199254740993", "-0", "-0.0e-0", "0.1000", "-1.8e308", "1E400", "1e131071", "1.0", "1E+2"}),
		rapid.StringMatching(`-?[1-9][0-9]{29}\.[0-9]{0,28}[1-9]0`),
	)
	pieces = rapid.SampledFrom([]string{"a", "ü", "東京", "🏬", "\u2028", "\u2029", "\u007f", "\ufeff", "<script>&'", `\u2028`, `\u0000`, `\u001f`, `\ud800`, `\uD83D\ude00`, `\u0041`, `\/`, `\\`, `\"`, `\n`, `}],{[`, "100%20", "%"})
	quoted = rapid.Custom(func(t *rapid.T) string {
		return `"` + strings.Join(rapid.SliceOfN(pieces, 0, 4).Draw(t, "pieces"), "") + `"`
	})
	scalars = rapid.OneOf(numbers, quoted, rapid.SampledFrom([]string{"true", "false", "null", "[]", "{}", `""`}))
	names   = rapid.OneOf(rapid.SampledFrom([]string{`"z"`, `"a"`, `"data"`, `"type"`, `""`, `"\u0061"`}), quoted)
)

// odd draws JSON of some levels that hardly a program gives back as it was: with names
// that come twice and in no order, escapes that need not be, and spaces anywhere.
func odd(levels int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		if levels == 0 || rapid.IntRange(0, 3).Draw(t, "leaf") == 0 {
			return scalars.Draw(t, "scalar")
		}
		gap := func() string { return space.Draw(t, "space") }
		isObject := rapid.Bool().Draw(t, "object")
		var members []string
		for range rapid.IntRange(0, 4).Draw(t, "members") {
			member := gap() + odd(levels-1).Draw(t, "value") + gap()
			if isObject {
				member = gap() + names.Draw(t, "name") + gap() + ":" + member
			}
			members = append(members, member)
		}
		if isObject {
			return "{" + gap() + strings.Join(members, ",") + gap() + "}"
		}
		return "[" + gap() + strings.Join(members, ",") + gap() + "]"
	})
}

// sunk draws odd JSON at the bottom of any number of levels that is allowed.
func sunk(t *rapid.T) string {
	const bottom = 4 // levels at most, an empty array or object in the last
	levels := rapid.OneOf(rapid.Just(0), rapid.Just(deepest-bottom), rapid.IntRange(0, deepest-bottom)).Draw(t, "levels")
	before, after := "[", "]"
	if rapid.Bool().Draw(t, "named") {
		before, after = `{"a" :`, "}"
	}
	return strings.Repeat(before, levels) + odd(bottom-1).Draw(t, "data") + strings.Repeat(after, levels)
}

// ways are how data can be fired: a body and its headers.
var ways = map[string]func(data string, n int) (body string, headers []string){
	"plain": func(data string, n int) (string, []string) {
		return `{"data":` + data + `,"type":"a.b","occurred_at":"2026-06-01T12:00:00Z","source":"/s"}`, []string{"Idempotency-Key", fmt.Sprint("k", n)}
	},
	"structured": func(data string, n int) (string, []string) {
		return inJSON(`"data":`+data, n), []string{"Content-Type", structured}
	},
	"structured, in base64": func(data string, n int) (string, []string) {
		return inJSON(`"data_base64":"`+base64.StdEncoding.EncodeToString([]byte(data))+`"`, n), []string{"Content-Type", structured}
	},
	"batch": func(data string, n int) (string, []string) {
		return "[" + inJSON(`"data":`+data, n) + "]", []string{"Content-Type", batched}
	},
	"binary": func(data string, n int) (string, []string) {
		return data, []string{"Ce-Specversion", "1.0", "Ce-Id", fmt.Sprint("k", n), "Ce-Source", "/s", "Ce-Type", "a.b", "Ce-Time", "2026-06-01T12:00:00Z"}
	},
}

func inJSON(data string, n int) string {
	return fmt.Sprintf(`{"specversion":"1.0","id":"k%d",%s,"source":"/s","type":"a.b","time":"2026-06-01T12:00:00Z"}`, n, data)
}

// T86, BYTES-01, BYTES-03, BYTES-05, BYTES-08: whichever way it is fired and whichever
// format it is sent in, data arrives as the bytes that were posted, under a signature
// over them.
func TestDataArrivesExactlyAsPosted(t *testing.T) {
	t.Parallel()
	p, s := start(t, pgtest.URL(t), nil, "serve"), open(t, nil)
	around := map[string][2]string{
		"standard":           {`{"type":"a.b","timestamp":"2026-06-01T12:00:00Z","data":`, "}"},
		"cloudevents":        {`{"specversion":"1.0","id":"EVENT","source":"/s","type":"a.b","time":"2026-06-01T12:00:00Z","datacontenttype":"application/json","data":`, "}"},
		"cloudevents-binary": {"", ""},
		"raw":                {"", ""},
	}
	oracles := map[string]*standardwebhooks.Webhook{}
	for format := range around {
		declared := p.declare(t, format, `{"events":["*"],"url":"`+s.URL+`","format":"`+format+`"}`)
		oracle, err := standardwebhooks.NewWebhook(declared.at("secret"))
		if err != nil {
			t.Fatal(err)
		}
		oracles[format] = oracle
	}
	n := 0
	for way, written := range ways {
		rapid.Check(t, func(t *rapid.T) {
			data := sunk(t)
			if way == "binary" {
				data = space.Draw(t, "before") + data + space.Draw(t, "after")
			}
			n++
			body, headers := written(data, n)
			a, err := p.try("POST", "/v1/events", body, headers...)
			if err != nil || a.status/100 != 2 || way == "batch" && a.at("results.0.status") != "201" {
				t.Fatalf("%s of %q: %d %s %v", way, body, a.status, a.text, err)
			}
			for range around {
				var w webhook
				select {
				case w = <-s.got:
				case <-time.After(30 * time.Second):
					t.Fatal("no webhook arrives")
				}
				format := w.header.Get("Eventsvc-Receiver")
				want := strings.Replace(around[format][0], "EVENT", w.header.Get("Eventsvc-Event-Id"), 1) + data + around[format][1]
				if string(w.body) != want {
					t.Errorf("%s, %s: got\n%q\nwant\n%q", way, format, w.body, want)
				}
				if err := oracles[format].Verify(w.body, w.header); err != nil {
					t.Errorf("%s, %s: %v", way, format, err)
				}
			}
		})
	}
}

// BYTES-05, BYTES-08, BYTES-09, BYTES-11, BYTES-13: what has tripped others.
func TestOddValuesAreStoredSentAndReadAgain(t *testing.T) {
	t.Parallel()
	p, s := start(t, pgtest.URL(t), nil, "serve"), open(t, nil)
	p.declare(t, "r", `{"events":["*"],"url":"`+s.URL+`","format":"raw","headers":{"X-Odd":"<a&b>'\"%20"}}`)
	huge := "[" + strings.TrimSuffix(strings.Repeat("1e131071,", 9000), ",") + "]"
	for i, data := range []string{`""`, "null", "0", "[]", "{}", "false", `{"\u0000":"\u0000"}`, "\"<&>\u2028\"", `"\/\u2028\ud800"`, huge} {
		fired := p.fire(t, fmt.Sprint("d", i), `{"type":"a.b","data":`+data+`}`)
		if w := s.next(t); string(w.body) != data || w.header.Get("X-Odd") != `<a&b>'"%20` {
			t.Errorf("%.60s arrives as %.60s, with %v", data, w.body, w.header)
		}
		if a := p.call(t, "GET", "/v1/events/"+fired.at("event.id"), ""); a.status != 200 || !strings.Contains(a.text, `"data":`+data+`,`) {
			t.Errorf("%.60s is read as %d %.300s", data, a.status, a.text)
		}
	}
	for i, metadata := range []string{"", `,"metadata":null`, `,"metadata":{}`} {
		fired := p.fire(t, fmt.Sprint("m", i), `{"type":"a.b","data":1`+metadata+`}`)
		if a := p.call(t, "GET", "/v1/events/"+fired.at("event.id"), ""); a.at("event.metadata") != "map[]" {
			t.Errorf("%q is read as %s", metadata, a.text)
		}
	}
	fired := p.fire(t, "odd", `{"type":"a.b","data":1,"metadata":{"<a&b>":"<\u2028&>"}}`)
	if a := p.call(t, "GET", "/v1/events/"+fired.at("event.id"), ""); a.at("event.metadata.<a&b>") != "<\u2028&>" || !strings.Contains(a.text, "<\u2028&>") {
		t.Errorf("got %s", a.text)
	}
}
