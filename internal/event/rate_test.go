package event

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestRatesAreReadAndSpelled(t *testing.T) {
	for s, want := range map[string]struct {
		Rate
		spelled string
	}{
		"10/s":        {Rate{10, time.Second}, "10/s"},
		"10/1s":       {Rate{10, time.Second}, "10/s"},
		"300/m":       {Rate{300, time.Minute}, "300/m"},
		"300/60s":     {Rate{300, time.Minute}, "300/m"},
		"5/10s":       {Rate{5, 10 * time.Second}, "5/10s"},
		"5/90s":       {Rate{5, 90 * time.Second}, "5/90s"},
		"1/24h":       {Rate{1, 24 * time.Hour}, "1/24h"},
		"2/48h":       {Rate{2, 48 * time.Hour}, "2/48h"},
		"100000/s":    {Rate{100_000, time.Second}, "100000/s"},
		"360000000/h": {Rate{360_000_000, time.Hour}, "360000000/h"},
	} {
		got, err := ParseRate(s)
		if err != nil || got != want.Rate || got.String() != want.spelled {
			t.Errorf("%q is %v (%s), %v; want %v (%s)", s, got, got, err, want.Rate, want.spelled)
		}
	}
	if got := (Rate{}).String(); got != "" {
		t.Errorf("no bound is spelled %q", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		r := Rate{rapid.IntRange(1, 100_000).Draw(t, "count"), time.Duration(rapid.IntRange(1, 86_400).Draw(t, "seconds")) * time.Second}
		if back, err := ParseRate(r.String()); err != nil || back != r {
			t.Errorf("%v is read back as %v, %v", r, back, err)
		}
	})
}

func TestWhatIsNoRateIsRefusedWithItsRule(t *testing.T) {
	for s, rule := range map[string]string{
		"": "whole number", "10": "whole number", "0/s": "from 1", "-1/s": "from 1", "+1/s": "from 1", "01/s": "from 1", "1.5/s": "whole number",
		"1/0s": "from 1", "1/-1s": "from 1", "10 /s": "whole number", " 10/s": "whole number", "10/s ": "whole number", "10/s\n": "whole number", "1e3/s": "whole number",
		"10/d": "s, m or h", "10/ms": "s, m or h", "10/S": "s, m or h", "10/sec": "s, m or h", "10/1m30s": "s, m or h", "10/1.5s": "whole number", "٣/s": "whole number",
		"100001/s": "above 100000/s", "6000001/m": "above 100000/s", "200001/2s": "above 100000/s",
		"1/25h": "one a day", "1/86401s": "one a day", "2/49h": "one a day", "1/999999999h": "3650d", "999999999/87601h": "3650d", "9999999999/s": "whole number",
		strings.Repeat("9", 5000) + "/s": "whole number",
	} {
		got, err := ParseRate(s)
		if err == nil {
			t.Errorf("%q was read as %v", s, got)
		} else if !strings.Contains(err.Error(), rule) || len(err.Error()) > 400 {
			t.Errorf("%.40q is refused with %v, which does not tell of %q", s, err, rule)
		}
	}
}
