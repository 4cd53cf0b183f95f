package e2e

import (
	"testing"

	"github.com/eventsvc/eventsvc/internal/pgtest"
)

// What is resumed is claimed for at once, by the process that was asked and by others: their
// polls are an hour away.
func TestWhatIsResumedIsDeliveredAtOnce(t *testing.T) {
	t.Parallel()
	for name, elsewhere := range map[string]bool{"here": false, "in another process": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, env := pgtest.URL(t), []string{"EVENTSVC_POLL=1h"}
			s := open(t, nil)
			p := start(t, url, append(env, workers(elsewhere)...), "serve")
			if elsewhere {
				start(t, url, env, "relay")
			}
			p.declare(t, "one", `{"events":["a.*"],"url":"`+s.URL+`"}`)
			p.declare(t, "many", `{"events":["a.*"],"fan_out":true}`)
			p.call(t, "PUT", "/v1/receivers/many/targets/t", `{"url":"`+s.URL+`"}`)
			for _, what := range []string{"/v1/receivers/one", "/v1/lanes/default", "/v1/receivers/many/targets/t"} {
				p.call(t, "POST", what+"/pause", "")
				p.fire(t, what, `{"type":"a.b","data":1}`)
				p.call(t, "POST", what+"/resume", "")
				for range 2 {
					s.next(t)
				}
			}
		})
	}
}

// workers has a process make no attempts of its own, where others do.
func workers(elsewhere bool) []string {
	if elsewhere {
		return []string{"EVENTSVC_RELAY_WORKERS=0"}
	}
	return nil
}
