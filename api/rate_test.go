package api

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventsvc/eventsvc/internal/access"
)

func TestAKeyMayCallAtItsRateAndNoFaster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pacers
		who := access.Caller{Key: access.Key{Number: 1, Rate: access.Rate{PerSecond: 4, Burst: 2}}}
		said := map[string]string{}
		call := func() *Problem { return p.pace(&who, func(name, value string) { said[name] = value }) }
		for n := range 2 {
			if call() != nil || said["RateLimit"] != fmt.Sprintf(`"key";r=%d;t=1`, 1-n) {
				t.Fatalf("call %d: %v", n, said)
			}
		}
		// Both sides of the moment at which one more may come.
		time.Sleep(249 * time.Millisecond)
		if refused := call(); refused == nil || refused.Status != 429 || refused.header.Get("Retry-After") != "1" || said["RateLimit"] != `"key";r=0;t=1` {
			t.Errorf("too early: %v, %v", refused, said)
		}
		time.Sleep(2 * time.Millisecond)
		if refused := call(); refused != nil {
			t.Errorf("on time: %v", refused)
		}
		// Another key, and one without a rate, are not held up by it.
		other := access.Caller{Key: access.Key{Number: 2, Rate: access.Rate{PerSecond: 1, Burst: 1}}}
		free := access.Caller{Key: access.Key{Number: 3}}
		for _, c := range []*access.Caller{&other, &free, &free} {
			if refused := p.pace(c, func(string, string) {}); refused != nil {
				t.Errorf("key %d: %v", c.Number, refused)
			}
		}
		// A key whose rate was changed goes by the new one.
		who.Rate = access.Rate{PerSecond: 1, Burst: 3}
		for range 3 {
			if refused := call(); refused != nil {
				t.Errorf("by the new rate: %v", refused)
			}
		}
		if call() == nil {
			t.Error("the new rate bounds nothing")
		}
	})
}

func TestRatesOfKeysThatAreNotUsedAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pacers
		for n := range int32(3 * maxPacers) {
			who := access.Caller{Key: access.Key{Number: n, Rate: access.Rate{PerSecond: 10, Burst: 1}}}
			if refused := p.pace(&who, func(string, string) {}); refused != nil {
				t.Fatal(refused)
			}
			time.Sleep(time.Millisecond)
		}
		if len(p.byKey) > maxPacers+1 {
			t.Errorf("%d are kept", len(p.byKey))
		}
	})
}
