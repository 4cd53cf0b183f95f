package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/fire"
)

// chained is an event of a chain, and how its deliveries stand.
type chained struct {
	Fact
	Deliveries []chainedDelivery `json:"deliveries"`
}

type chainedDelivery struct {
	_        struct{}     `additionalProperties:"true"`
	ID       string       `json:"id"`
	Receiver string       `json:"receiver"`
	Target   string       `json:"target,omitempty"`
	Status   event.Status `json:"status"`
	Attempts int          `json:"attempts"`
}

type chainOutput struct {
	Body struct {
		_             struct{}  `additionalProperties:"true"`
		CorrelationID string    `json:"correlation_id"`
		Data          []chained `json:"data" doc:"The chain's events, oldest first, each with the event that caused it."`
		More          bool      `json:"more" doc:"The chain has more events than the two hundred newest, which are here."`
	}
}

// maxChain bounds the events of one answer.
const maxChain = 200

func (s *server) correlations(api huma.API) {
	op := operation(reads, http.MethodGet, "/v1/correlations/{id}", "get-correlation", "Events", "A chain of events with what became of each",
		"Every event that carries this correlation_id, oldest first, each with null for its data, which GET /v1/events/{id} shows. Where a producer named none, the id of the event that began the chain is its correlation_id.")
	op.Errors = []int{401, 404, 503}
	register(api, op, s.getCorrelation)
}

func (s *server) getCorrelation(ctx context.Context, in *struct {
	ID string `path:"id"`
}) (*chainOutput, error) {
	list, err := s.Desk.List(ctx, fire.Filter{CorrelationID: in.ID, Tenant: tenantOf(ctx), Limit: maxChain + 1})
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	if len(list) == 0 {
		return nil, notFound("there is no event of this chain")
	}
	out := &chainOutput{}
	out.Body.CorrelationID, out.Body.Data = in.ID, []chained{}
	if len(list) > maxChain {
		list, out.Body.More = list[:maxChain], true
	}
	for i := len(list) - 1; i >= 0; i-- {
		deliveries, err := s.Ledger.OfEvent(ctx, list[i].ID)
		if err != nil {
			return nil, s.explain(ctx, err)
		}
		list[i].Data = []byte("null") // a chain is read for its course
		c := chained{Fact: showEvent(&list[i]), Deliveries: []chainedDelivery{}}
		for j := len(deliveries) - 1; j >= 0; j-- {
			d := &deliveries[j]
			c.Deliveries = append(c.Deliveries, chainedDelivery{ID: d.ID.Text(event.DeliveryPrefix), Receiver: called(ctx, d.Receiver), Target: called(ctx, d.Target), Status: d.Status, Attempts: d.Attempts})
		}
		out.Body.Data = append(out.Body.Data, c)
	}
	return out, nil
}
