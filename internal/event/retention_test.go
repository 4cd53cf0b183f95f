package event

import (
	"testing"
	"time"
)

// T72, both sides of each bound.
func TestARetentionIsWholeSecondsOrAWord(t *testing.T) {
	for text, want := range map[string]Retention{
		"1s": {Window: time.Second}, "30d": {Window: 30 * 24 * time.Hour}, "2147483647s": {Window: 2147483647 * time.Second},
		"succeeded": {When: WhenSucceeded}, "settled": {When: WhenSettled},
	} {
		got, err := ParseRetention(text)
		if err != nil || got != want {
			t.Errorf("%s: got %+v, %v", text, got, err)
		}
		if back, err := ParseRetention(got.String()); err != nil || back != want {
			t.Errorf("%s: written %s, read %+v, %v", text, got, back, err)
		}
	}
	for _, text := range []string{"", "0s", "0.5s", "1.5s", "-1s", "30", "2147483648s", "1e9s", "Settled", "NaN"} {
		if got, err := ParseRetention(text); err == nil {
			t.Errorf("%q: got %+v", text, got)
		}
	}
}

func TestADurationIsBoundedToTheNanosecond(t *testing.T) {
	if d, err := ParseDuration("3650d"); err != nil || time.Duration(d) != MaxDuration {
		t.Errorf("got %v, %v", d, err)
	}
	if d, err := ParseDuration("3650d1ns"); err == nil {
		t.Errorf("got %v", d)
	}
}
