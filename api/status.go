package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/ledger"
)

// Figures are how much there is of something. What is embedded has a name in capitals,
// or the specification leaves it out.
type Figures struct {
	Owed        int64   `json:"owed" doc:"What is due, claimed or not."`
	Scheduled   int64   `json:"scheduled" doc:"What is not due yet."`
	Claimed     int64   `json:"claimed" doc:"What a worker holds."`
	Dead        int64   `json:"dead" doc:"What was given up; no part of owed."`
	OldestOwed  float64 `json:"oldest_owed_seconds" doc:"Since the oldest that is owed arrived, or was due."`
	LapsedLease int64   `json:"lapsed_leases" doc:"Held by workers that are lost."`
}

func showFigures(f *ledger.Figures) Figures {
	return Figures{f.Owed, f.Scheduled, f.Claimed, f.Dead, f.OldestSeconds, f.Lapsed}
}

type receiverStatusView struct {
	_        struct{} `additionalProperties:"true"`
	Receiver string   `json:"receiver"`
	Lane     string   `json:"lane"`
	Figures
	Paused bool `json:"paused"`
	Gone   bool `json:"gone" doc:"It was deleted."`
}

type laneStatusView struct {
	_    struct{} `additionalProperties:"true"`
	Lane string   `json:"lane"`
	Figures
	Paused bool `json:"paused"`
	Relays int  `json:"relays" doc:"Live relays that serve it."`
	Served bool `json:"served" doc:"false: something is owed here and nobody claims it."`
}

type relayStatusView struct {
	_      struct{}  `additionalProperties:"true"`
	Worker string    `json:"worker"`
	Lanes  []string  `json:"lanes" doc:"Those it serves; empty: all."`
	SeenAt time.Time `json:"seen_at"`
}

type pauseView struct {
	_        struct{}  `additionalProperties:"true"`
	Lane     string    `json:"lane,omitempty"`
	Receiver string    `json:"receiver,omitempty"`
	Target   string    `json:"target,omitempty"`
	Until    time.Time `json:"until"`
}

type quietView struct {
	_           struct{}   `additionalProperties:"true"`
	Receiver    string     `json:"receiver"`
	LastSuccess *time.Time `json:"last_success" doc:"null: it never acknowledged anything."`
}

type openView struct {
	_             struct{} `additionalProperties:"true"`
	Prepared      int      `json:"prepared"`
	InDoubt       int      `json:"in_doubt"`
	OldestSeconds float64  `json:"oldest_seconds"`
}

type unmatchedView struct {
	_       struct{} `additionalProperties:"true"`
	Waiting int      `json:"waiting" doc:"A relay matches them soon after their transaction has committed."`
	Refused int      `json:"refused" doc:"A POST of them would have been refused; the log says why. Replay them to have them delivered all the same."`
}

type statusView struct {
	_ struct{} `additionalProperties:"true"`
	Figures
	Receivers []receiverStatusView `json:"receivers" doc:"Those with something owed or dead, the worst first."`
	Lanes     []laneStatusView     `json:"lanes"`
	Relays    []relayStatusView    `json:"relays" doc:"Relays that reported within the last 20 seconds."`
	Pauses    []pauseView          `json:"pauses" doc:"What this process leaves alone because it was asked to."`
	PollOnly  bool                 `json:"poll_only" doc:"This process's relay hears no wake-ups from other processes, and finds their work by polling."`
	Quiet     []quietView          `json:"quiet" doc:"Receivers that acknowledged nothing for as long as events are kept; up to 100."`
	Open      openView             `json:"transactions" doc:"Transactions that are not decided. Those in doubt wait for a person."`
	Unmatched unmatchedView        `json:"unmatched" doc:"Events that were fired in SQL and are owed to nobody yet."`
	AsOf      time.Time            `json:"as_of"`
}

func (s *server) status(api huma.API) {
	op := operation(readsAll, http.MethodGet, "/v1/status", "get-status", "Operations", "How things stand",
		"Watch oldest_owed_seconds and dead. The figures are a second old at most, or more where counting takes longer.")
	op.Errors = []int{401, 503}
	register(api, op, s.getStatus)

	op = operation(readsAll, http.MethodGet, "/v1/quiet-receivers", "list-quiet-receivers", "Operations", "Receivers that acknowledged nothing for long",
		"The quietest first; one that was never told anything is among them.")
	op.Errors = []int{401, 422, 503}
	register(api, op, s.getQuiet)
}

// statusAge is how old the figures may be.
const statusAge = time.Second

// maxQuiet bounds the list of quiet receivers.
const maxQuiet = 100

func (s *server) getStatus(ctx context.Context, _ *struct{}) (*struct{ Body statusView }, error) {
	now, err := s.Watch.Status(ctx, statusAge)
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	quiet, err := s.Ledger.Quiet(ctx, s.Prune.Keep, maxQuiet)
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	open, err := s.Desk.CountTransactions(ctx)
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	unmatched, err := s.Desk.CountUnmatched(ctx)
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	v := statusView{
		Unmatched: unmatchedView{Waiting: unmatched.Waiting, Refused: unmatched.Refused},
		Open:      openView{Prepared: open.Prepared, InDoubt: open.InDoubt, OldestSeconds: open.OldestSeconds},
		Figures:   showFigures(&now.Figures), Receivers: []receiverStatusView{}, Lanes: []laneStatusView{}, Relays: []relayStatusView{},
		Pauses: s.showPauses(), PollOnly: s.Deaf != nil && s.Deaf(), Quiet: showQuiet(quiet), AsOf: now.AsOf.UTC(),
	}
	for i := range now.Receivers {
		r := &now.Receivers[i]
		v.Receivers = append(v.Receivers, receiverStatusView{Receiver: r.Receiver, Lane: r.Lane, Figures: showFigures(&r.Figures), Paused: r.Paused, Gone: r.Gone})
	}
	for i := range now.Lanes {
		l := &now.Lanes[i]
		v.Lanes = append(v.Lanes, laneStatusView{Lane: l.Lane, Figures: showFigures(&l.Figures), Paused: l.Paused, Relays: l.Relays, Served: !l.Unserved()})
	}
	for _, w := range now.Relays {
		v.Relays = append(v.Relays, relayStatusView{Worker: w.Worker, Lanes: append([]string{}, w.Lanes...), SeenAt: w.SeenAt.UTC()})
	}
	return &struct{ Body statusView }{v}, nil
}

func (s *server) showPauses() []pauseView {
	views := []pauseView{}
	if s.Pauses == nil {
		return views
	}
	for _, p := range s.Pauses() {
		v := pauseView{Lane: p.Lane, Until: p.Until.UTC()}
		if t := s.Target(p.Target); t != nil {
			v.Receiver, v.Target = t.Receiver.Key, t.Name
		}
		views = append(views, v)
	}
	return views
}

func showQuiet(list []ledger.QuietReceiver) []quietView {
	views := []quietView{}
	for _, q := range list {
		v := quietView{Receiver: q.Receiver}
		if q.LastSuccess != nil {
			v.LastSuccess = moment(*q.LastSuccess)
		}
		views = append(views, v)
	}
	return views
}

type quietOutput struct {
	Body struct {
		_    struct{}    `additionalProperties:"true"`
		Data []quietView `json:"data"`
	}
}

func (s *server) getQuiet(ctx context.Context, in *struct {
	Within string `query:"within" default:"90d" doc:"For how long nothing was acknowledged."`
}) (*quietOutput, error) {
	within, err := event.ParseDuration(in.Within)
	if err != nil {
		return nil, problem("invalid-parameter", "query within: "+err.Error())
	}
	quiet, err := s.Ledger.Quiet(ctx, time.Duration(within), maxQuiet)
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	out := &quietOutput{}
	out.Body.Data = showQuiet(quiet)
	return out, nil
}
