package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/webhook"
)

// egressCheck is the body of a question about the egress policy.
type egressCheck struct {
	URL string `json:"url" maxLength:"2000" doc:"Where a webhook would be sent." example:"https://shop.example.com/hooks"`
}

type egressView struct {
	_         struct{}            `additionalProperties:"true"`
	Allowed   bool                `json:"allowed" doc:"Whether a webhook may be sent there now: one address at least may be dialled."`
	Reason    string              `json:"reason"`
	Host      string              `json:"host" doc:"As the URL has it; empty where it has none."`
	Addresses []egressAddressView `json:"addresses" doc:"What the host resolves to, in the order in which they are tried."`
}

type egressAddressView struct {
	_       struct{} `additionalProperties:"true"`
	Address string   `json:"address" example:"10.1.2.3"`
	Allowed bool     `json:"allowed"`
	Rule    string   `json:"rule" doc:"What decided." example:"a private address (10.0.0.0/8)"`
}

func showEgress(e *webhook.Explanation) egressView {
	v := egressView{Allowed: e.Allowed, Reason: e.Reason, Host: e.Host, Addresses: []egressAddressView{}}
	for _, a := range e.Addresses {
		v.Addresses = append(v.Addresses, egressAddressView{Address: a.Address.String(), Allowed: a.Allowed, Rule: a.Rule})
	}
	return v
}

func (s *server) egress(api huma.API) {
	op := operation(declaresAll, http.MethodPost, "/v1/egress/check", "check-egress", "Operations", "What the egress policy says of a URL",
		"The host is resolved, and each of its addresses is judged, as for a webhook; nothing is connected to. Every attempt judges anew the address that it dials.")
	op.SkipValidateBody = true
	op.Errors = []int{400, 401, 413, 415, 422}
	register(api, op, s.checkEgress)
	documentBody[egressCheck](api, op, nil)
}

func (s *server) checkEgress(ctx context.Context, in *struct {
	Request
	RawBody []byte `contentType:"application/json"`
}) (*struct{ Body egressView }, error) {
	var body egressCheck
	if err := in.body(in.RawBody, &body); err != nil {
		return nil, err
	}
	if body.URL == "" {
		return nil, invalid(event.Flaws{{Pointer: "/url", Message: "is required"}})
	}
	e := s.Explain(ctx, body.URL)
	return &struct{ Body egressView }{showEgress(&e)}, nil
}
