package api

import (
	"net/http"
	"testing"
	"time"
)

// RFC 7240: what cannot be read or kept is ignored, and of several the first counts.
func TestAPreferenceToWaitIsReadOrIgnored(t *testing.T) {
	for _, c := range []struct {
		lines []string
		want  time.Duration
	}{
		{nil, 0},
		{[]string{"wait=5"}, 5 * time.Second},
		{[]string{"wait=1"}, time.Second},
		{[]string{"wait=30"}, 30 * time.Second},
		{[]string{"WAIT = 5"}, 5 * time.Second},
		{[]string{`wait="5"`}, 5 * time.Second},
		{[]string{"wait=5; because"}, 5 * time.Second},
		{[]string{"respond-async, wait=5"}, 5 * time.Second},
		{[]string{"return=minimal", "wait=5"}, 5 * time.Second},
		{[]string{`foo="a, wait=7", wait=5`}, 5 * time.Second},
		{[]string{`foo="a\", wait=7", wait=5`}, 5 * time.Second},
		{[]string{"foo; wait=7, wait=5"}, 5 * time.Second},
		{[]string{"wait=5, wait=7"}, 5 * time.Second},
		{[]string{"wait=x, wait=7"}, 0},
		{[]string{"wait=0"}, 0},
		{[]string{"wait=31"}, 0},
		{[]string{"wait=-1"}, 0},
		{[]string{"wait=+5"}, 0},
		{[]string{"wait=1.5"}, 0},
		{[]string{"wait=99999999999999999999"}, 0},
		{[]string{"wait"}, 0},
		{[]string{"wait="}, 0},
		{[]string{`wait="5`}, 0},
		{[]string{"waits=5"}, 0},
		{[]string{", ,"}, 0},
	} {
		if got := preferredWait(http.Header{"Prefer": c.lines}); got != c.want {
			t.Errorf("%q is %v, want %v", c.lines, got, c.want)
		}
	}
}
