package fire_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/fire"
	"github.com/eventsvc/eventsvc/internal/ledger"
	"github.com/eventsvc/eventsvc/internal/registry"
)

// TestTheStateMachineOfADelivery runs random operations against the database and against
// a small model in memory, and compares the two after each. For more of it:
//
//	go test ./internal/fire -run StateMachine -rapid.checks=2000 -rapid.steps=100
//
// A failure prints the seed that repeats it.
func TestTheStateMachineOfADelivery(t *testing.T) {
	given := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { given[f.Name] = true })
	for name, n := range map[string]string{"rapid.checks": "25", "rapid.steps": "80"} {
		if given[name] {
			continue
		}
		if err := flag.Set(name, n); err != nil {
			t.Fatal(err)
		}
	}
	o := open(t)
	go func() {
		for range o.woken { // nobody is woken here
		}
	}()
	rapid.Check(t, func(rt *rapid.T) {
		m := newModel(t, rt, o)
		rt.Repeat(map[string]func(*rapid.T){
			"":        m.compare,
			"fire":    m.fire,
			"again":   m.again,
			"claim":   m.claim,
			"record":  m.record,
			"record2": m.record, // as often as everything else together would have it
			"record3": m.record,
			"claim2":  m.claim,
			"lapse":   m.lapse,
			"release": m.release,
			"wait":    m.wait,
			"cancel":  m.cancel,
			"requeue": m.requeue,
			"replay":  m.replay,
			"remove":  m.remove,
			"prune":   m.prune,
			"one":     m.claimOne,
		})
	})
}

// modelRow is what the model knows of a delivery.
type modelRow struct {
	id, event event.ID
	receiver  string
	status    event.Status
	attempts  int
	max       int
	sending   int
	waits     bool // available_at is in the future
	lapsed    bool // claimed, and its lease is over
	lost      int  // claims lost so far, with the one in force
}

func (r *modelRow) owed() bool { return !r.status.Terminal() }

// modelClaim is a claim that some worker holds, or believes it does.
type modelClaim struct {
	claim  event.Claim
	worker event.WorkerID
	live   bool
}

type model struct {
	o       *office
	workers []event.WorkerID
	gone    map[string]bool // receivers that were removed
	keys    map[string]event.ID
	events  map[event.ID]bool
	rows    map[event.ID]*modelRow
	claims  []*modelClaim
}

// maxClaims is after how many lost claims a row is poison, in this test.
const maxClaims = 3

var modelReceivers = []string{"a", "b"}

func newModel(t *testing.T, rt *rapid.T, o *office) *model {
	m := &model{o: o, gone: map[string]bool{}, keys: map[string]event.ID{}, events: map[event.ID]bool{}, rows: map[event.ID]*modelRow{}}
	if _, err := o.pool.Exec(context.Background(), `TRUNCATE eventsvc.owed, eventsvc.settled, eventsvc.attempts, eventsvc.events, eventsvc.fire_keys`); err != nil {
		rt.Fatal(err)
	}
	for _, key := range modelReceivers {
		o.declare(t, key, registry.Declaration{MaxAttempts: most(3)})
	}
	for _, name := range []string{"w1", "w1"} { // the same name: two workers all the same
		w, err := o.ledger.Enroll(context.Background(), name)
		if err != nil {
			rt.Fatal(err)
		}
		m.workers = append(m.workers, w)
	}
	return m
}

func (m *model) sorted() []*modelRow {
	rows := slices.Collect(maps.Values(m.rows))
	slices.SortFunc(rows, func(x, y *modelRow) int { return x.id.Compare(y.id) })
	return rows
}

// some draws a row, or skips where there is none.
func (m *model) some(t *rapid.T) *modelRow {
	rows := m.sorted()
	if len(rows) == 0 {
		t.Skip("no delivery yet")
	}
	return rapid.SampledFrom(rows).Draw(t, "delivery")
}

func (m *model) add(r fire.Owed, of event.ID) {
	m.rows[r.ID] = &modelRow{id: r.ID, event: of, receiver: r.Receiver, status: event.Pending, max: 3, sending: 1}
}

func (m *model) fire(t *rapid.T) {
	key := fmt.Sprintf("k%d", len(m.keys))
	r, err := m.o.Fire(context.Background(), draft(key, key))
	if err != nil {
		t.Fatal(err)
	}
	want := 0
	for _, key := range modelReceivers {
		if !m.gone[key] {
			want++
		}
	}
	if r.Replayed || len(r.Owed) != want {
		t.Fatalf("fired: %+v, want %d deliveries", r, want)
	}
	m.keys[key], m.events[r.Event.ID] = r.Event.ID, true
	for _, owed := range r.Owed {
		m.add(owed, r.Event.ID)
	}
}

func (m *model) again(t *rapid.T) {
	keys := slices.Sorted(maps.Keys(m.keys))
	if len(keys) == 0 {
		t.Skip("no key yet")
	}
	key := rapid.SampledFrom(keys).Draw(t, "key")
	r, err := m.o.Fire(context.Background(), draft(key, key))
	if err != nil || !r.Replayed || r.Event.ID != m.keys[key] {
		t.Fatalf("the same again: %+v, %v", r, err)
	}
}

func (m *model) quotas(t *rapid.T, n int) []ledger.Quota {
	heads, _, err := m.o.ledger.Backlog(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	var quotas []ledger.Quota
	for _, h := range heads {
		quotas = append(quotas, ledger.Quota{Target: h.Target, N: n, Lease: time.Hour})
	}
	return quotas
}

func (m *model) claim(t *rapid.T) {
	w := rapid.SampledFrom(m.workers).Draw(t, "worker")
	claimed, err := m.o.ledger.Claim(context.Background(), w, maxClaims, m.quotas(t, 1000))
	if err != nil {
		t.Fatal(err)
	}
	got := map[event.ID]bool{}
	for _, c := range claimed.Claims {
		got[c.Delivery] = true
		m.hold(w, *c)
	}
	for _, r := range m.sorted() {
		due := r.owed() && !r.waits && (r.status != event.Claimed || r.lapsed)
		poison := due && r.lapsed && r.lost >= maxClaims
		if got[r.id] != (due && !poison) {
			t.Fatalf("claimed is %v of %+v", got[r.id], r)
		}
		switch {
		case poison:
			m.lose(r)
			r.status, r.lapsed = event.Dead, false
		case due:
			r.lost++
			r.status, r.lapsed = event.Claimed, false
		}
	}
}

func (m *model) claimOne(t *rapid.T) {
	r := m.some(t)
	w := rapid.SampledFrom(m.workers).Draw(t, "worker")
	c, _, err := m.o.ledger.ClaimOne(context.Background(), w, r.id, time.Hour)
	want := r.status == event.Pending || r.status == event.Failed
	if (err == nil) != want {
		t.Fatalf("claim of one that is %s: %v", r.status, err)
	}
	if err == nil {
		m.hold(w, c)
		r.lost++
		r.status = event.Claimed
	}
}

// hold notes a claim; an older one of the same delivery is lost.
func (m *model) hold(w event.WorkerID, c event.Claim) {
	if r := m.rows[c.Delivery]; r != nil {
		m.lose(r)
	}
	m.claims = append(m.claims, &modelClaim{claim: c, worker: w, live: true})
}

func (m *model) lose(r *modelRow) {
	for _, c := range m.claims {
		if c.claim.Delivery == r.id {
			c.live = false
		}
	}
}

// someClaim draws a claim, more often one that is in force.
func (m *model) someClaim(t *rapid.T) *modelClaim {
	from := m.claims
	if rapid.IntRange(0, 3).Draw(t, "any claim at 0") != 0 {
		from = slices.DeleteFunc(slices.Clone(m.claims), func(c *modelClaim) bool { return !c.live })
	}
	if len(from) == 0 {
		t.Skip("no claim yet")
	}
	return from[rapid.IntRange(0, len(from)-1).Draw(t, "claim")]
}

// record settles a claim that is in force, or was once, under its own worker's number or
// under the other's.
func (m *model) record(t *rapid.T) {
	c := m.someClaim(t)
	w := c.worker
	if rapid.IntRange(0, 3).Draw(t, "an impostor at 0") == 0 {
		w = rapid.SampledFrom(m.workers).Draw(t, "recording worker")
	}
	v := rapid.SampledFrom([]event.Verdict{
		{Ruling: event.Success},
		{Ruling: event.Failure, Class: event.ClassHTTP5xx, Reason: "answered 500"},
		{Ruling: event.Permanent, Class: event.ClassPermanent, Reason: "answered 410"},
		{Ruling: event.RetryAfter, After: time.Hour, Class: event.ClassRetryAfter, Reason: "answered 429"},
		{Ruling: event.RetryAfter, After: time.Hour, Uncounted: true, Class: event.ClassRetryAfter, Reason: "answered 429"},
		{Ruling: event.NotYet, Until: time.Now().Add(time.Hour), Reason: "not yet"},
	}).Draw(t, "verdict")
	v.StartedAt = time.Now()
	terms := event.Terms{Curve: event.Curve{Base: time.Nanosecond, Cap: time.Nanosecond}, GiveUpAfter: 24 * time.Hour, MaxRetryAfter: 24 * time.Hour}
	s := event.Settle(&c.claim, terms, &v, time.Minute, 0.5)
	recorded, _, err := m.o.ledger.Record(context.Background(), w, []ledger.Entry{{Fence: c.claim.Fence, Settlement: s,
		Attempt: event.Attempt{Number: c.claim.Attempt(), StartedAt: v.StartedAt, Outcome: s.Outcome, Class: s.Class, Error: s.Error}}})
	if err != nil {
		t.Fatal(err)
	}
	if want := c.live && w == c.worker; recorded[0] != want {
		t.Fatalf("recorded is %v, want %v", recorded[0], want)
	}
	if !recorded[0] {
		return
	}
	c.live = false
	r := m.rows[c.claim.Delivery]
	r.status, r.attempts, r.lapsed, r.lost = s.Status, r.attempts+s.Spent, false, 0
	r.waits = s.Wait > time.Second || !s.Until.IsZero()
}

// lapse ends a lease: the rows are moved, not the clock.
func (m *model) lapse(t *rapid.T) {
	r := m.some(t)
	if r.status != event.Claimed {
		t.Skip("nobody holds it")
	}
	if _, err := m.o.pool.Exec(context.Background(), `UPDATE eventsvc.owed SET lease_until = now() - interval '1 second' WHERE id = $1`, [16]byte(r.id)); err != nil {
		t.Fatal(err)
	}
	r.lapsed = true
}

func (m *model) release(t *rapid.T) {
	c := m.someClaim(t)
	if err := m.o.ledger.Release(context.Background(), c.worker, []event.Fence{c.claim.Fence}); err != nil {
		t.Fatal(err)
	}
	if !c.live {
		return
	}
	c.live = false
	r := m.rows[c.claim.Delivery]
	r.lost--
	r.lapsed = false
	r.status = event.Pending
	if m.failedBefore(r) {
		r.status = event.Failed
	}
}

// failedBefore is what tells failed from pending: the table keeps it beside the claim.
func (m *model) failedBefore(r *modelRow) (failed bool) {
	if err := m.o.pool.QueryRow(context.Background(), `SELECT failed FROM eventsvc.owed WHERE id = $1`, [16]byte(r.id)).Scan(&failed); err != nil {
		return false
	}
	return failed
}

// wait lets everything become due.
func (m *model) wait(t *rapid.T) {
	if _, err := m.o.pool.Exec(context.Background(), `UPDATE eventsvc.owed SET available_at = now() - interval '1 second' WHERE available_at > now()`); err != nil {
		t.Fatal(err)
	}
	for _, r := range m.rows {
		r.waits = false
	}
}

func (m *model) cancel(t *rapid.T) {
	r := m.some(t)
	tally, err := m.o.ledger.Cancel(context.Background(), ledger.Selection{IDs: []event.ID{r.id}})
	want := r.status == event.Pending || r.status == event.Failed
	if err != nil || (tally.Done == 1) != want {
		t.Fatalf("cancel of one that is %s: %+v, %v", r.status, tally, err)
	}
	if want {
		r.status = event.Cancelled
	}
}

// begin gives a row its life anew.
func (r *modelRow) begin() {
	r.status, r.attempts, r.waits, r.lapsed, r.lost = event.Pending, 0, false, false, 0
}

func (m *model) requeue(t *rapid.T) {
	var s ledger.Selection
	named := rapid.Bool().Draw(t, "by id")
	var meant []*modelRow
	if named {
		meant = []*modelRow{m.some(t)}
		s.IDs = []event.ID{meant[0].id}
	} else {
		meant = m.sorted()
	}
	tally, _, err := m.o.ledger.Requeue(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, r := range meant {
		if !m.gone[r.receiver] && (r.status == event.Dead || named && r.status == event.Orphaned) {
			r.begin()
			n++
		}
	}
	if tally.Done != n {
		t.Fatalf("requeued %+v, want %d", tally, n)
	}
}

func (m *model) replay(t *rapid.T) {
	ids := slices.SortedFunc(maps.Keys(m.events), event.ID.Compare)
	if len(ids) == 0 {
		t.Skip("no event")
	}
	id := rapid.SampledFrom(ids).Draw(t, "event")
	got, err := m.o.Replay(context.Background(), id, fire.To{}, false)
	if err != nil {
		t.Fatal(err)
	}
	reopened, has := 0, map[string]bool{}
	for _, r := range m.sorted() {
		if r.event != id {
			continue
		}
		has[r.receiver] = true
		if r.owed() || m.gone[r.receiver] {
			continue
		}
		if r.status == event.Succeeded {
			r.sending++
		}
		r.begin()
		reopened++
	}
	added := 0
	for _, key := range modelReceivers {
		if !m.gone[key] && !has[key] {
			added++
		}
	}
	if got.Reopened != reopened || got.Added != added {
		t.Fatalf("replayed %+v, want %d and %d", got, reopened, added)
	}
	if added > 0 {
		m.learn(t, id)
	}
}

// learn takes over the deliveries that a replay added: their ids are the service's.
func (m *model) learn(t *rapid.T, of event.ID) {
	list, err := m.o.ledger.OfEvent(context.Background(), of)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range list {
		if m.rows[d.ID] == nil {
			m.add(fire.Owed{ID: d.ID, Receiver: d.Receiver}, of)
		}
	}
}

// remove deletes a receiver, what it is owed orphaned, or declares it again.
func (m *model) remove(t *rapid.T) {
	key := rapid.SampledFrom(modelReceivers).Draw(t, "receiver")
	if m.gone[key] {
		d := registry.Declaration{Events: []event.Pattern{"*"}, URL: "http://192.0.2.1/", MaxAttempts: most(3)}
		if _, err := m.o.registry.Declare(context.Background(), key, d, 0); err != nil {
			t.Fatal(err)
		}
		delete(m.gone, key)
		return
	}
	gone, err := m.o.registry.Remove(context.Background(), key, 0, none)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.o.ledger.Abandon(context.Background(), gone, event.Orphaned); err != nil {
		t.Fatal(err)
	}
	m.gone[key] = true
	for _, r := range m.rows {
		if r.receiver == key && r.owed() && (r.status != event.Claimed || r.lapsed) {
			m.lose(r)
			r.status, r.lapsed = event.Orphaned, false
		}
	}
}

// prune deletes every event for which nothing is owed. Its key is known still.
func (m *model) prune(t *rapid.T) {
	done, err := m.o.Prune(context.Background(), fire.Prune{Keep: 0, Rows: 5})
	if err != nil {
		t.Fatal(err)
	}
	kept := map[event.ID]bool{}
	for _, r := range m.rows {
		kept[r.event] = kept[r.event] || r.owed()
	}
	n := 0
	for id := range m.events {
		if kept[id] {
			continue
		}
		n++
		delete(m.events, id)
		for _, r := range m.sorted() {
			if r.event == id {
				delete(m.rows, r.id)
			}
		}
	}
	if done.Events != n {
		t.Fatalf("pruned %+v, want %d", done, n)
	}
}

// compare holds the tables to the model, and to the laws that need no model.
func (m *model) compare(t *rapid.T) {
	rows, err := m.o.pool.Query(context.Background(), `
		SELECT id, event_id, CASE WHEN claimed_by <> 0 THEN 'claimed' WHEN failed THEN 'failed' ELSE 'pending' END, attempts::int, sending::int, claims::int FROM eventsvc.owed
		UNION ALL SELECT id, event_id, status::text, attempts::int, sending::int, -1 FROM eventsvc.settled`)
	if err != nil {
		t.Fatal(err)
	}
	var id, of event.ID
	var status event.Status
	var attempts, sending, claims int
	seen := 0
	_, err = pgx.ForEachRow(rows, []any{(*[16]byte)(&id), (*[16]byte)(&of), (*string)(&status), &attempts, &sending, &claims}, func() error {
		seen++
		r := m.rows[id]
		if r == nil || r.event != of || r.status != status || r.attempts != attempts || r.sending != sending {
			return fmt.Errorf("the table has %s %d %d of %x, the model %+v", status, attempts, sending, id, r)
		}
		if claims >= 0 && claims != r.lost {
			return fmt.Errorf("%d claims were lost or are in force, the model has %+v", claims, r)
		}
		if attempts > r.max {
			return fmt.Errorf("%d attempts of %d were spent", attempts, r.max)
		}
		return nil
	})
	if err != nil || seen != len(m.rows) {
		t.Fatalf("%d rows, want %d: %v", seen, len(m.rows), err)
	}
	var events, twice, adrift int
	err = m.o.pool.QueryRow(context.Background(), `SELECT (SELECT count(*) FROM eventsvc.events),
		(SELECT count(*) FROM (SELECT 1 FROM (SELECT event_id, target_id FROM eventsvc.owed UNION ALL SELECT event_id, target_id FROM eventsvc.settled) d GROUP BY event_id, target_id HAVING count(*) > 1) x),
		(SELECT count(*) FROM eventsvc.attempts a WHERE NOT EXISTS (SELECT 1 FROM eventsvc.events e WHERE e.id = a.event_id))`).Scan(&events, &twice, &adrift)
	if err != nil || events != len(m.events) || twice != 0 || adrift != 0 {
		t.Fatalf("%d events, want %d; %d owed twice; %d attempts without an event: %v", events, len(m.events), twice, adrift, err)
	}
}
