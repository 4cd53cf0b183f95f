package e2e

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/eventsvc/eventsvc/internal/pgtest"
)

// spoken is what somebody who said a verb about a transaction was told.
type spoken struct {
	verb string
	answer
}

// saidOf holds what was answered about a transaction to what became of it: everybody was
// told the same, and one of those who were agreed with decided it, or none where its caller
// was asked.
func (p *process) saidOf(t *testing.T, id string, said []spoken, deciders ...int) (committed bool) {
	t.Helper()
	state, decided := p.state(t, id), 0
	for _, s := range said {
		switch {
		case (s.verb == "commit") != (state == "committed"):
			if s.status != http.StatusConflict || s.at("code") != "transaction-decided" {
				t.Errorf("%s is %s, and a %s was told %d %s", id, state, s.verb, s.status, s.text)
			}
		case s.status != http.StatusOK || s.at("transaction.state") != state:
			t.Errorf("%s is %s, and a %s was told %d %s", id, state, s.verb, s.status, s.text)
		case s.header.Get("Idempotent-Replayed") == "":
			decided++
		}
	}
	for _, n := range deciders {
		if n == decided {
			return state == "committed"
		}
	}
	t.Errorf("%s is %s, decided by %d of %d, want one of %v", id, state, decided, len(said), deciders)
	return state == "committed"
}

// Callers that contradict each other and themselves, in two processes at once.
func TestACommitAndARollbackAtOnceDecideOnce(t *testing.T) {
	t.Parallel()
	const n = 40
	url := pgtest.URL(t)
	db := pgtest.Open(t, url)
	p, q, s := start(t, url, nil, "serve"), start(t, url, nil, "serve"), open(t, nil)
	p.declare(t, "r", `{"events":["order.*"],"url":"`+s.URL+`"}`)
	said := map[string][]spoken{}
	for i := range n {
		said[p.hold(t, db, fmt.Sprint("k", i), s.URL+"/check")] = make([]spoken, 4)
	}
	var all sync.WaitGroup
	for id, told := range said {
		for i, say := range []struct {
			to   *process
			verb string
		}{{p, "commit"}, {q, "rollback"}, {q, "commit"}, {p, "rollback"}} {
			all.Go(func() {
				a, err := say.to.try("POST", "/v1/transactions/"+id+"/"+say.verb, "")
				if err != nil {
					t.Error(err)
				}
				told[i] = spoken{say.verb, a}
			})
		}
	}
	all.Wait()
	committed := 0
	for id, told := range said {
		if p.saidOf(t, id, told, 1) {
			committed++
		}
	}
	t.Logf("%d of %d were committed", committed, n)
	p.toldOf(t, db, s, 2*committed)
}

// The caller says rollback while it is asked, and says commit there.
func TestACheckAndARollbackAtOnceDecideOnce(t *testing.T) {
	t.Parallel()
	const n = 20
	url := pgtest.URL(t)
	db := pgtest.Open(t, url)
	p, q, s := start(t, url, nil, "serve"), start(t, url, nil, "serve"), open(t, nil)
	p.declare(t, "r", `{"events":["order.*"],"url":"`+s.URL+`"}`)
	said := map[string][]spoken{}
	oracle := open(t, nil)
	for i := range n {
		said[p.hold(t, db, fmt.Sprint("k", i), oracle.URL)] = make([]spoken, 1)
	}
	askNow(t, db)
	var all sync.WaitGroup
	for id, told := range said {
		oracle.next(t) // some are asked when the first is said something of
		all.Go(func() {
			a, err := q.try("POST", "/v1/transactions/"+id+"/rollback", "")
			if err != nil {
				t.Error(err)
			}
			told[0] = spoken{"rollback", a}
		})
	}
	all.Wait()
	committed := 0
	for id, told := range said {
		if p.saidOf(t, id, told, 0, 1) {
			committed++
		}
	}
	t.Logf("%d of %d were committed", committed, n)
	p.toldOf(t, db, s, 2*committed)
}
