package event

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestTypesAreDottedParts(t *testing.T) {
	for s, good := range map[string]bool{
		"a": true, "order.placed": true, "a_1.b2": true, strings.Repeat("a", 128): true,
		"": false, strings.Repeat("a", 129): false, "a..b": false, ".a": false, "a.": false, "A.b": false, "a-b": false, "a b": false, "é": false, "a.*": false,
	} {
		if err := CheckType(s); (err == nil) != good {
			t.Errorf("%q: got %v, want good: %v", s, err, good)
		}
	}
}

func TestPatterns(t *testing.T) {
	for p, good := range map[Pattern]bool{"*": true, "a.*": true, "a.b": true, "*.x": false, "a..b": false, "a.*.b": false, "a*": false, "": false, "**": false, ".*": false} {
		if err := p.Check(); (err == nil) != good {
			t.Errorf("%q: got %v, want good: %v", p, err, good)
		}
	}
	for _, c := range []struct {
		p    Pattern
		t    string
		want bool
	}{{"*", "a", true}, {"a.*", "a.b", true}, {"a.*", "a.b.c", true}, {"a.*", "a", false}, {"a.*", "ab.c", false}, {"a.b", "a.b", true}, {"a.b", "a.b.c", false}} {
		if got := c.p.Matches(c.t); got != c.want {
			t.Errorf("%q matches %q: %v", c.p, c.t, got)
		}
	}
	for want, given := range map[string][]Pattern{"[*]": {"*", "a.*", "a.b", "a.b"}, "[a.* b.c]": {"b.c", "a.b", "a.*", "a.b.*"}, "[a.b]": {"a.b"}} {
		if got := fmt.Sprint(NormalizePatterns(given)); got != want {
			t.Errorf("%v becomes %s, want %s", given, got, want)
		}
	}
}

func TestDurationsAreReadAndSpelled(t *testing.T) {
	for s, want := range map[string]time.Duration{"90s": 90 * time.Second, "48h": 48 * time.Hour, "2d": 48 * time.Hour, "1d12h": 36 * time.Hour, "0.5d": 12 * time.Hour, "10ms": 10 * time.Millisecond, "0s": 0, "3650d": 3650 * 24 * time.Hour} {
		if got, err := ParseDuration(s); err != nil || time.Duration(got) != want {
			t.Errorf("%q is %v, %v; want %v", s, got, err, want)
		}
	}
	for _, bad := range []string{"", "5", "-1s", "-1d", "1d-1h", "d", "NaNd", "Infd", "1e9d", "0x1d", "3651d", "99999999999h", "soon", "1 h", "1d1"} {
		if got, err := ParseDuration(bad); err == nil {
			t.Errorf("%q was read as %v", bad, got)
		}
	}
	for want, d := range map[string]time.Duration{"2d": 48 * time.Hour, "1h30m": 90 * time.Minute, "1m30s": 90 * time.Second, "1h": time.Hour, "20s": 20 * time.Second, "36h": 36 * time.Hour, "0s": 0} {
		if got := Duration(d).String(); got != want {
			t.Errorf("%v is spelled %s, want %s", d, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		d := Duration(rapid.Int64Range(0, int64(MaxDuration)).Draw(t, "d"))
		if back, err := ParseDuration(d.String()); err != nil || back != d {
			t.Errorf("%v is read back as %v, %v", d, back, err)
		}
	})
}

func TestSecretsAreReadStrictly(t *testing.T) {
	encoded := func(n int) string { return Secret(make([]byte, n)).Reveal() }
	for s, good := range map[string]bool{
		encoded(24): true, encoded(64): true, encoded(32): true,
		"": false, "whsec_": false, encoded(23): false, encoded(65): false, strings.TrimPrefix(encoded(32), "whsec_"): false,
		strings.TrimRight(encoded(32), "="): false, encoded(32) + "\n": false, strings.Replace(encoded(32), "AA", "A\nA", 1): false, "whsec_" + strings.Repeat("-_", 16): false,
	} {
		if _, err := ParseSecret(s); (err == nil) != good {
			t.Errorf("%q: got %v, want good: %v", s, err, good)
		} else if err != nil && s != "" && strings.Contains(err.Error(), s) && s != "whsec_" {
			t.Errorf("the error repeats %q", s)
		}
	}
}

func TestASecretShowsItselfNowhereByAccident(t *testing.T) {
	s := Secret("0123456789abcdef0123456789abcdef")
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "secret", s, "in", struct{ S Secret }{s})
	marshalled, err := json.Marshal(map[string]any{"s": s, "p": &s})
	if err != nil {
		t.Fatal(err)
	}
	all := fmt.Sprintf("%v %s %#v %q %+v", s, s, s, s, struct{ S Secret }{s}) + log.String() + string(marshalled)
	for _, shown := range []string{"0123456789abcdef", strings.TrimPrefix(s.Reveal(), "whsec_"), "48, 49", "0x30"} {
		if strings.Contains(all, shown) {
			t.Errorf("%q is in %s", shown, all)
		}
	}
}

func TestReceiversWantTheirTypesAndTenant(t *testing.T) {
	r := &Receiver{Patterns: []Pattern{"order.*", "invoice.paid"}, Tenant: "a"}
	for _, c := range []struct {
		kind, tenant string
		want         bool
	}{{"order.placed", "a", true}, {"invoice.paid", "a", true}, {"invoice.sent", "a", false}, {"order.placed", "b", false}, {"order.placed", "", false}} {
		if got := r.Wants(c.kind, c.tenant); got != c.want {
			t.Errorf("%s of %q: %v", c.kind, c.tenant, got)
		}
	}
	if all := (&Receiver{Patterns: []Pattern{"*"}}); !all.Wants("a", "") || !all.Wants("a", "b") {
		t.Error("a receiver without a tenant misses events")
	}
}

func TestStatusesAreOwedOrTerminal(t *testing.T) {
	var owed []Status
	for _, s := range Statuses {
		if !s.Terminal() {
			owed = append(owed, s)
		}
	}
	if !slices.Equal(owed, []Status{Pending, Claimed, Failed}) {
		t.Errorf("owed are %v", owed)
	}
}

func TestPointerTokensAreEscaped(t *testing.T) {
	if got := PointerToken("a/b~c"); got != "a~1b~0c" {
		t.Errorf("got %s", got)
	}
}

func TestOnlyAnSQLSTATEMakesAClass(t *testing.T) {
	for state, want := range map[string]Class{"P0001": "sql:P0001", "40P01": "sql:40P01", "EV999": "sql:EV999",
		"": "sql:XX000", "p0001": "sql:XX000", "P00011": "sql:XX000", "P0 01": "sql:XX000", "P0001\n": "sql:XX000"} {
		if got := SQLClass(state); got != want {
			t.Errorf("%q is %s, want %s", state, got, want)
		}
	}
}
