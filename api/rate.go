package api

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/eventsvc/eventsvc/internal/access"
)

// pacers hold each API key to its rate, in this process. The zero value is ready.
type pacers struct {
	mu    sync.Mutex
	byKey map[int32]*pacer
}

type pacer struct {
	*rate.Limiter
	of access.Rate
}

// maxPacers is above which those are dropped that have long been full again: they would
// begin as they are.
const maxPacers = 10_000

// pace counts a call of a caller's, and says in the fields of the RateLimit draft
// (draft-ietf-httpapi-ratelimit-headers-10) how many more may come. It answers a problem
// where one is too many.
func (p *pacers) pace(who *access.Caller, header func(name, value string)) *Problem {
	if who.Rate.PerSecond == 0 {
		return nil
	}
	now := time.Now()
	limit := p.of(who, now)
	allowed := limit.AllowN(now, 1)
	left := max(limit.TokensAt(now), 0)
	per, burst := float64(who.Rate.PerSecond), float64(who.Rate.Burst)
	header("RateLimit-Policy", fmt.Sprintf(`"key";q=%d;w=%d`, who.Rate.Burst, seconds(burst/per)))
	header("RateLimit", fmt.Sprintf(`"key";r=%d;t=%d`, int(left), seconds((burst-left)/per)))
	if allowed {
		return nil
	}
	return problem("quota-exceeded", fmt.Sprintf("this API key may make %d calls a second, and %d at once; wait as Retry-After says", who.Rate.PerSecond, who.Rate.Burst)).
		with("Retry-After", strconv.Itoa(seconds((1-left)/per)))
}

// seconds is a time in whole seconds, at least one.
func seconds(s float64) int { return max(int(math.Ceil(s)), 1) }

func (p *pacers) of(who *access.Caller, now time.Time) *rate.Limiter {
	p.mu.Lock()
	defer p.mu.Unlock()
	if one := p.byKey[who.Number]; one != nil && one.of == who.Rate {
		return one.Limiter
	}
	if p.byKey == nil || len(p.byKey) > maxPacers {
		p.drop(now)
	}
	one := &pacer{rate.NewLimiter(rate.Limit(who.Rate.PerSecond), who.Rate.Burst), who.Rate}
	p.byKey[who.Number] = one
	return one.Limiter
}

func (p *pacers) drop(now time.Time) {
	kept := map[int32]*pacer{}
	for key, one := range p.byKey {
		if one.TokensAt(now) < float64(one.of.Burst) {
			kept[key] = one
		}
	}
	p.byKey = kept
}

// heading sets a header of an answer that may be a problem or not.
func heading(w http.ResponseWriter) func(name, value string) {
	return func(name, value string) { w.Header().Set(name, value) }
}
