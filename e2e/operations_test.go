package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/eventsvc/eventsvc/internal/pgtest"
)

// moody is a shop whose answer can be changed.
func moody(t *testing.T, status int) (*shop, *atomic.Int64) {
	t.Helper()
	var answer atomic.Int64
	answer.Store(int64(status))
	return open(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(int(answer.Load())) }), &answer
}

// T20, T40, T58, T64, T124, DUP-10, IDEM-09: the whole way of a dead delivery.
func TestADeadDeliveryIsRequeuedAndAReplayIsANewSending(t *testing.T) {
	t.Parallel()
	p := start(t, pgtest.URL(t), nil, "serve")
	s, answer := moody(t, 410)
	p.declare(t, "r", `{"events":["*"],"url":"`+s.URL+`","max_attempts":1}`)
	fired := p.fire(t, "k", `{"type":"a.b","data":1}`)
	id, evt := fired.at("deliveries.0.id"), fired.at("event.id")
	dead := p.settled(t, id, "dead")
	if dead.at("attempts") != "1" || !strings.Contains(dead.at("why"), "never again") {
		t.Errorf("got %s", dead.text)
	}
	first := s.next(t)
	answer.Store(200)
	if a := p.call(t, "POST", "/v1/deliveries/"+id+"/requeue", ""); a.status != 200 || a.at("last_error") != "" {
		t.Errorf("requeue: %d %s", a.status, a.text)
	}
	second := s.next(t)
	if second.header.Get("Webhook-Id") != first.header.Get("Webhook-Id") || second.header.Get("Eventsvc-Attempt") != "1" {
		t.Errorf("requeued, it goes out as %v", second.header)
	}
	if d := p.settled(t, id, "succeeded"); d.at("last_error") != "" || d.list("attempt_log") != 2 {
		t.Errorf("after the requeue: %s", d.text)
	}
	for _, verb := range []string{"requeue", "cancel", "deliver"} {
		if a := p.call(t, "POST", "/v1/deliveries/"+id+"/"+verb, ""); a.status != 409 || a.at("code") != "conflict" {
			t.Errorf("%s of one that succeeded: %d %s", verb, a.status, a.text)
		}
		if a := p.call(t, "POST", "/v1/deliveries/dlv_01jxkg2c8zf3v9e4m6r7t8w9yb/"+verb, ""); a.status != 404 {
			t.Errorf("%s of none: %d %s", verb, a.status, a.text)
		}
	}
	for n := 2; n <= 3; n++ {
		if a := p.call(t, "POST", "/v1/events/"+evt+"/replay", ""); a.status != 200 || a.at("reopened") != "1" {
			t.Errorf("replay: %d %s", a.status, a.text)
		}
		again := s.next(t)
		if want := fmt.Sprintf("%s_%d", first.header.Get("Webhook-Id"), n); again.header.Get("Webhook-Id") != want {
			t.Errorf("replayed, it is %s, want %s", again.header.Get("Webhook-Id"), want)
		}
		p.settled(t, id, "succeeded")
	}
	p.declare(t, "new", `{"events":["a.b"],"url":"`+s.URL+`"}`)
	if a := p.call(t, "POST", "/v1/events/"+evt+"/replay", `{"receivers":["new"]}`); a.at("added") != "1" || a.at("reopened") != "0" {
		t.Errorf("to a new receiver: %s", a.text)
	}
	s.next(t)
	if a := p.call(t, "POST", "/v1/events/evt_01jxkg2c8zf3v9e4m6r7t8w9ya/replay", ""); a.status != 404 {
		t.Errorf("of none: %d %s", a.status, a.text)
	}
}

// T56, T57, T65 over HTTP, and what a body must be.
func TestManyAreRequeuedCancelledAndReplayedWithCounts(t *testing.T) {
	t.Parallel()
	p := start(t, pgtest.URL(t), nil, "serve")
	s, answer := moody(t, 410)
	p.declare(t, "r", `{"events":["*"],"url":"`+s.URL+`"}`)
	p.declare(t, "later", `{"events":["*"],"url":"`+s.URL+`","due":"1h"}`)
	var dead []string
	for n := range 5 {
		fired := p.fire(t, fmt.Sprint(n), `{"type":"a.b","data":1}`)
		for _, i := range []string{"0", "1"} {
			if fired.at("deliveries."+i+".receiver") == "r" {
				dead = append(dead, fired.at("deliveries."+i+".id"))
			}
		}
	}
	for _, id := range dead {
		p.settled(t, id, "dead")
	}
	answer.Store(200)
	ids, _ := json.Marshal(append(dead[:1:1], "dlv_01jxkg2c8zf3v9e4m6r7t8w9yb"))
	for body, want := range map[string]string{
		`{"limit":0}`:                                `{"more":false,"requeued":0,"skipped":{}}`,
		`{"ids":[]}`:                                 `{"more":false,"requeued":0,"skipped":{}}`,
		`{"dry_run":true}`:                           `{"more":false,"requeued":5,"skipped":{"pending":5}}`,
		`{"dry_run":true,"receiver":"later"}`:        `{"more":false,"requeued":0,"skipped":{"pending":5}}`,
		`{"dry_run":true,"limit":2}`:                 `{"more":false,"requeued":2,"skipped":{"pending":5}}`,
		`{"dry_run":true,"ids":` + string(ids) + `}`: `{"more":false,"requeued":1,"skipped":{"not_found":1}}`,
	} {
		if a := p.call(t, "POST", "/v1/deliveries/requeue", body); a.status != 200 || compact(a.text) != want {
			t.Errorf("%s: %d %s, want %s", body, a.status, a.text, want)
		}
	}
	for body, pointer := range map[string]string{
		`{"limit":-1}`: "/limit", `{"ids":["x"]}`: "/ids/0", `{"recever":"r"}`: "/recever", `{"status":"succeeded"}`: "/status",
		`{"ids":[],"receiver":"r"}`: "/ids", `{"event":"x"}`: "/event",
	} {
		for _, verb := range []string{"requeue", "cancel"} {
			if a := p.call(t, "POST", "/v1/deliveries/"+verb, body); a.status != 422 || a.at("errors.0.pointer") != pointer {
				t.Errorf("%s %s: %d %s", verb, body, a.status, a.text)
			}
		}
	}
	if a := p.call(t, "POST", "/v1/deliveries/requeue", ""); a.status != 400 {
		t.Errorf("no body: %d %s", a.status, a.text)
	}
	if a := p.call(t, "POST", "/v1/deliveries/requeue", `{"receiver":"r"}`); a.at("requeued") != "5" {
		t.Errorf("requeue: %s", a.text)
	}
	for _, id := range dead {
		p.settled(t, id, "succeeded")
	}
	if a := p.call(t, "POST", "/v1/deliveries/cancel", `{"receiver":"later","limit":3}`); a.at("cancelled") != "3" {
		t.Errorf("cancel: %s", a.text)
	}
	if a := p.call(t, "POST", "/v1/deliveries/cancel", `{}`); compact(a.text) != `{"cancelled":2,"more":false,"skipped":{"cancelled":3,"succeeded":5}}` {
		t.Errorf("cancel the rest: %s", a.text)
	}
	if a := p.call(t, "POST", "/v1/events/replay", `{"type":"a.b","limit":2,"receivers":["later"]}`); a.at("events") != "2" || a.at("reopened") != "2" {
		t.Errorf("replay: %s", a.text)
	}
	for body, pointer := range map[string]string{`{"limit":-1}`: "/limit", `{"ids":["x"]}`: "/ids/0", `{"cursor":"x"}`: "/cursor"} {
		if a := p.call(t, "POST", "/v1/events/replay", body); a.status != 422 || a.at("errors.0.pointer") != pointer {
			t.Errorf("replay %s: %d %s", body, a.status, a.text)
		}
	}
}

// compact is JSON with its members in order and without spaces.
func compact(text string) string {
	var v any
	if json.Unmarshal([]byte(text), &v) != nil {
		return text
	}
	out, _ := json.Marshal(v)
	return string(out)
}

// A delivery that waits for its backoff, or is not due, is tried on the spot.
func TestADeliveryIsTriedNowWhenSomebodyWishes(t *testing.T) {
	t.Parallel()
	p := start(t, pgtest.URL(t), []string{"EVENTSVC_RELAY_WORKERS=0"}, "serve")
	s, answer := moody(t, 500)
	p.declare(t, "r", `{"events":["*"],"url":"`+s.URL+`","backoff_base":"1h"}`)
	id := p.fire(t, "k", `{"type":"a.b","data":1}`).at("deliveries.0.id")
	if a := p.call(t, "POST", "/v1/deliveries/"+id+"/deliver", ""); a.status != 200 || a.at("status") != "failed" || a.at("attempt_log.0.http_status") != "500" {
		t.Errorf("got %d %s", a.status, a.text)
	}
	p.log.await(t, "receiver r failed delivery "+id+" on attempt 1 with http_5xx; the row is failed")
	answer.Store(200)
	if a := p.call(t, "POST", "/v1/receivers/r/pause", ""); a.status != 200 {
		t.Fatal(a.text)
	}
	if a := p.call(t, "POST", "/v1/deliveries/"+id+"/deliver", ""); a.status != 409 || !strings.Contains(a.at("detail"), "paused") {
		t.Errorf("while paused: %d %s", a.status, a.text)
	}
	p.call(t, "POST", "/v1/receivers/r/resume", "")
	if a := p.call(t, "POST", "/v1/deliveries/"+id+"/deliver", ""); a.status != 200 || a.at("status") != "succeeded" || a.at("attempts") != "2" {
		t.Errorf("got %d %s", a.status, a.text)
	}
}

// The verbs do what the API does, on the database itself.
func TestTheVerbsOfAnOperator(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	p := start(t, url, nil, "serve")
	s, answer := moody(t, 410)
	p.declare(t, "r", `{"events":["*"],"url":"`+s.URL+`"}`)
	p.declare(t, "later", `{"events":["*"],"url":"`+s.URL+`","due":"1h"}`)
	fired := p.fire(t, "k", `{"type":"a.b","data":1}`)
	by := map[string]string{}
	for _, i := range []string{"0", "1"} {
		by[fired.at("deliveries."+i+".receiver")] = fired.at("deliveries." + i + ".id")
	}
	p.settled(t, by["r"], "dead")
	answer.Store(200)
	run := func(code int, says string, args ...string) {
		t.Helper()
		v := spawn(t, t.TempDir(), []string{"DATABASE_URL=" + url, "EVENTSVC_ALLOW_PRIVATE=true"}, args...)
		if got := v.exit(t); got != code || !strings.Contains(v.out.String()+v.log.String(), says) {
			t.Errorf("%s: exit code %d, said %s%s; want %d and %q", strings.Join(args, " "), got, v.out, v.log, code, says)
		}
	}
	run(1, "1 deliveries are dead", "status", "--exit-code")
	run(0, `"dead": 1`, "status", "--json")
	run(2, "name ids, or narrow it", "requeue")
	run(2, "not an id", "requeue", "x")
	run(2, "must not be negative", "cancel", "--limit", "-1")
	run(0, "would be requeued 1", "requeue", "--receiver", "r", "--dry-run")
	run(0, "requeued 0\nskipped not_found 1", "requeue", "dlv_01jxkg2c8zf3v9e4m6r7t8w9yb")
	run(0, "requeued 1", "requeue", "--all")
	p.settled(t, by["r"], "succeeded")
	run(0, "relays: 1", "status", "--exit-code")
	run(0, "reopened 1", "replay", fired.at("event.id"), "--receiver", "r")
	p.settled(t, by["r"], "succeeded")
	run(0, "succeeded", "deliver", by["later"])
	run(1, "has ended", "deliver", by["later"])
	run(0, "cancelled 0", "cancel", "--all")
	run(0, "pruned 0", "prune")
	run(0, "would be pruned 1", "prune", "--older-than", "0s", "--dry-run")
	run(0, "pruned 1", "prune", "--older-than", "0s")
	if a := p.call(t, "GET", "/v1/events/"+fired.at("event.id"), ""); a.status != 404 {
		t.Errorf("after the prune: %d %s", a.status, a.text)
	}
	if a := p.fire(t, "k", `{"type":"a.b","data":1}`); a.header.Get("Idempotent-Replayed") != "true" || a.at("event.id") != fired.at("event.id") {
		t.Errorf("its key after the prune: %s", a.text)
	}
}

// T77, T98's neighbour: the service prunes by itself, never what is owed.
func TestTheServicePrunesByItself(t *testing.T) {
	t.Parallel()
	p := start(t, pgtest.URL(t), []string{"EVENTSVC_RETENTION=1ms", "EVENTSVC_PRUNE_EVERY=300ms"}, "serve")
	s, _ := moody(t, 200)
	p.declare(t, "later", `{"events":["owed"],"url":"`+s.URL+`","due":"1h"}`)
	owed := p.fire(t, "1", `{"type":"owed","data":1}`).at("event.id")
	gone := p.fire(t, "2", `{"type":"a.b","data":1}`).at("event.id")
	eventually(t, func() bool { return p.call(t, "GET", "/v1/events/"+gone, "").status == 404 }, func() string { return "an event past its retention is kept" })
	if a := p.call(t, "GET", "/v1/events/"+owed, ""); a.status != 200 {
		t.Errorf("what is owed was pruned: %d %s", a.status, a.text)
	}
	if a := p.call(t, "POST", "/v1/prune", `{"older_than":"0s","limit":0}`); a.status != 200 || a.at("pruned") != "0" {
		t.Errorf("prune: %d %s", a.status, a.text)
	}
}

// T11, T107 in part: lanes, their relays, and what an operator sees of them.
func TestLanesAreServedPausedAndSeen(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	p := start(t, url, []string{"EVENTSVC_RELAY_WORKERS=0"}, "serve")
	s, _ := moody(t, 200)
	v := spawn(t, t.TempDir(), []string{"DATABASE_URL=" + url}, "relay", "--lane", "mail")
	if code := v.exit(t); code != 2 || !strings.Contains(v.log.String(), `no receiver is in a lane "mail"`) {
		t.Errorf("an undeclared lane: exit code %d, %s", code, v.log)
	}
	p.declare(t, "mailer", `{"events":["*"],"url":"`+s.URL+`","lane":"mail"}`)
	p.declare(t, "plain", `{"events":["*"],"url":"`+s.URL+`"}`)
	fired := p.fire(t, "k", `{"type":"a.b","data":1}`)
	by := map[string]string{}
	for _, i := range []string{"0", "1"} {
		by[fired.at("deliveries."+i+".receiver")] = fired.at("deliveries." + i + ".id")
	}
	status := func() (lanes map[string]map[string]any) {
		var v struct {
			Lanes []map[string]any
		}
		if err := json.Unmarshal([]byte(p.call(t, "GET", "/v1/status", "").text), &v); err != nil {
			t.Fatal(err)
		}
		lanes = map[string]map[string]any{}
		for _, l := range v.Lanes {
			lanes[fmt.Sprint(l["lane"])] = l
		}
		return lanes
	}
	eventually(t, func() bool { return status()["mail"]["owed"] == 1.0 }, func() string { return "nothing is owed in lane mail" })
	if l := status(); l["mail"]["served"] != false || l["default"]["served"] != false {
		t.Errorf("without a relay: %v", l)
	}
	mail := start(t, url, nil, "relay", "--lane", "mail=2")
	p.settled(t, by["mailer"], "succeeded")
	eventually(t, func() bool { l := status(); return l["mail"]["served"] == true && l["mail"]["relays"] == 1.0 }, func() string { return fmt.Sprint(status()) })
	if d := p.call(t, "GET", "/v1/deliveries/"+by["plain"], ""); d.at("status") != "pending" {
		t.Errorf("a relay of another lane took it: %s", d.text)
	}
	if a := p.call(t, "POST", "/v1/lanes/default/pause", ""); a.status != 200 || a.at("paused") != "true" {
		t.Errorf("pause: %d %s", a.status, a.text)
	}
	if a := p.call(t, "POST", "/v1/lanes/none/pause", ""); a.status != 404 {
		t.Errorf("pause of none: %d %s", a.status, a.text)
	}
	start(t, url, nil, "relay")
	eventually(t, func() bool { return status()["default"]["relays"] == 1.0 }, func() string { return fmt.Sprint(status()) })
	if d := p.call(t, "GET", "/v1/deliveries/"+by["plain"], ""); d.at("status") != "pending" || !strings.Contains(d.at("why"), "paused") {
		t.Errorf("in a paused lane: %s", d.text)
	}
	if a := p.call(t, "POST", "/v1/lanes/default/resume", ""); a.at("paused") != "false" {
		t.Errorf("resume: %s", a.text)
	}
	p.settled(t, by["plain"], "succeeded")
	if code := mail.stop(t, syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
	eventually(t, func() bool { return status()["mail"]["relays"] == 0.0 }, func() string { return "a relay that ended is counted still" })
	if a := p.call(t, "GET", "/v1/lanes", ""); a.list("data") != 2 || a.at("data.1.lane") != "mail" || a.at("data.1.receivers") != "1" {
		t.Errorf("lanes: %s", a.text)
	}
}

func TestARelayRunsOnceOrForSoMany(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	p := start(t, url, []string{"EVENTSVC_RELAY_WORKERS=0"}, "serve")
	s, _ := moody(t, 200)
	p.declare(t, "r", `{"events":["*"],"url":"`+s.URL+`"}`)
	for n := range 5 {
		p.fire(t, fmt.Sprint(n), `{"type":"a.b","data":1}`)
	}
	for _, c := range []struct {
		args string
		left string
	}{{"relay --limit 0", "5"}, {"relay --limit 2", "3"}, {"relay --once", "0"}, {"relay --once", "0"}} {
		v := spawn(t, t.TempDir(), []string{"DATABASE_URL=" + url, "EVENTSVC_ALLOW_PRIVATE=true"}, strings.Fields(c.args)...)
		if code := v.exit(t); code != 0 {
			t.Errorf("%s: exit code %d, %s", c.args, code, v.log)
		}
		if got := p.call(t, "GET", "/v1/deliveries?status=pending", "").list("data"); fmt.Sprint(got) != c.left {
			t.Errorf("%s leaves %d, want %s", c.args, got, c.left)
		}
	}
}

// T35, LIFE-05: told once per recorded failure, signed like a webhook.
func TestOnFailureIsToldOverHTTP(t *testing.T) {
	t.Parallel()
	p := start(t, pgtest.URL(t), nil, "serve")
	s, _ := moody(t, 500)
	desk := open(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) })
	p.declare(t, "r", `{"events":["*"],"url":"`+s.URL+`","max_attempts":2,"backoff_base":"1ms","on_failure":{"url":"`+desk.URL+`/failures"}}`)
	id := p.fire(t, "k", `{"type":"a.b","data":1}`).at("deliveries.0.id")
	p.settled(t, id, "dead")
	for _, want := range []string{"failed", "dead"} {
		n := desk.next(t)
		var body struct {
			Type string
			Data map[string]any
		}
		if err := json.Unmarshal(n.body, &body); err != nil || body.Type != "eventsvc.delivery."+want || body.Data["delivery_id"] != id || body.Data["status"] != want || body.Data["class"] != "http_5xx" {
			t.Errorf("told %s, %v", n.body, err)
		}
		if n.header.Get("Webhook-Signature") == "" || !strings.HasPrefix(n.header.Get("Webhook-Id"), id) {
			t.Errorf("told under %v", n.header)
		}
	}
	p.log.await(t, "on_failure of receiver r could not be told of attempt 2")
}

func TestAReceiverIsRenamedWithAllThatItIsOwed(t *testing.T) {
	t.Parallel()
	p := start(t, pgtest.URL(t), nil, "serve")
	s, _ := moody(t, 200)
	p.declare(t, "old", `{"events":["*"],"url":"`+s.URL+`"}`)
	p.declare(t, "other", `{"events":["none"],"url":"`+s.URL+`"}`)
	p.call(t, "POST", "/v1/receivers/old/pause", "")
	id := p.fire(t, "k", `{"type":"a.b","data":1}`).at("deliveries.0.id")
	for key, status := range map[string]int{`"other"`: 409, `"a b"`: 422, `7`: 422} {
		if a := p.call(t, "POST", "/v1/receivers/old/rename", `{"key":`+key+`}`); a.status != status {
			t.Errorf("to %s: %d %s", key, a.status, a.text)
		}
	}
	if a := p.call(t, "POST", "/v1/receivers/none/rename", `{"key":"x"}`); a.status != 404 {
		t.Errorf("of none: %d %s", a.status, a.text)
	}
	if a := p.call(t, "POST", "/v1/receivers/old/rename", `{"key":"new"}`); a.status != 200 || a.at("key") != "new" {
		t.Errorf("rename: %d %s", a.status, a.text)
	}
	if d := p.call(t, "GET", "/v1/deliveries/"+id, ""); d.at("receiver") != "new" {
		t.Errorf("what it is owed: %s", d.text)
	}
	p.call(t, "POST", "/v1/receivers/new/resume", "")
	p.settled(t, id, "succeeded")
	if got := s.next(t); got.header.Get("Eventsvc-Receiver") != "new" {
		t.Errorf("told as %s", got.header.Get("Eventsvc-Receiver"))
	}
}

// T16, T95, T96, LOST-08: an orphan, and its way back.
func TestAnOrphanComesBackWithItsReceiver(t *testing.T) {
	t.Parallel()
	p := start(t, pgtest.URL(t), nil, "serve")
	s, _ := moody(t, 200)
	p.declare(t, "r", `{"events":["*"],"url":"`+s.URL+`","due":"1h"}`)
	id := p.fire(t, "k", `{"type":"a.b","data":1}`).at("deliveries.0.id")
	if a := p.call(t, "GET", "/v1/status", ""); a.at("scheduled") != "1" || a.at("owed") != "0" || a.at("oldest_owed_seconds") != "0" {
		t.Errorf("scheduled: %s", a.text)
	}
	if a := p.call(t, "DELETE", "/v1/receivers/r", ""); a.status != 409 {
		t.Errorf("delete: %d %s", a.status, a.text)
	}
	if a := p.call(t, "DELETE", "/v1/receivers/r?owed=orphan", ""); a.status != 204 {
		t.Errorf("delete: %d %s", a.status, a.text)
	}
	if d := p.settled(t, id, "orphaned"); d.at("attempts") != "0" || d.at("completed_at") == "" {
		t.Errorf("got %s", d.text)
	}
	if a := p.call(t, "POST", "/v1/deliveries/"+id+"/requeue", ""); a.status != 409 || !strings.Contains(a.at("detail"), "declare it again") {
		t.Errorf("while it is gone: %d %s", a.status, a.text)
	}
	p.declare(t, "r", `{"events":["*"],"url":"`+s.URL+`"}`)
	if a := p.call(t, "POST", "/v1/deliveries/"+id+"/requeue", ""); a.status != 200 {
		t.Errorf("once it is back: %d %s", a.status, a.text)
	}
	p.settled(t, id, "succeeded")
}

// T89 to T91: what is wrong is found, by a stable code, and an empty database has nothing.
func TestTheCheckFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	key := "EVENTSVC_SECRET_KEY=" + strings.Repeat("A", 43) + "="
	run := func(code int, says string, env ...string) {
		t.Helper()
		v := spawn(t, t.TempDir(), append([]string{"DATABASE_URL=" + url, "EVENTSVC_ALLOW_PRIVATE=true"}, env...), "check")
		if got := v.exit(t); got != code || !strings.Contains(v.out.String(), says) {
			t.Errorf("exit code %d, said %s%s; want %d and %q", got, v.out, v.log, code, says)
		}
	}
	run(0, "nothing is wrong", key)
	run(0, "EV-W001")
	p := start(t, url, []string{"EVENTSVC_RELAY_WORKERS=0", key}, "serve")
	s, _ := moody(t, 200)
	p.declare(t, "r", `{"events":["a.b"],"url":"`+s.URL+`"}`)
	p.fire(t, "k", `{"type":"a.b","data":1}`)
	run(0, "EV-W005 1 deliveries wait in lane default", key)
	run(0, "EV-W003 [r] listen to a.b", key, "EVENTSVC_STRICT_TYPES=true")
	run(0, "EV-W002 receiver r could not be declared so today: /url", key, "EVENTSVC_ALLOW_PRIVATE=false")
	p.declare(t, "t", `{"events":["c.d"],"site":"task","url":"`+s.URL+`"}`)
	run(0, "EV-W006 receiver t is for worker processes", key)
	run(1, "EV-E002 receiver r cannot be used", "EVENTSVC_SECRET_KEY="+strings.Repeat("E", 43)+"=")
	v := spawn(t, t.TempDir(), []string{"DATABASE_URL=" + pgtest.Empty(t)}, "check")
	if code := v.exit(t); code != 1 || !strings.Contains(v.out.String(), "EV-E001") {
		t.Errorf("without a schema: exit code %d, %s%s", code, v.out, v.log)
	}
}
