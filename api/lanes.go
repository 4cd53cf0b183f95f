package api

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventsvc/eventsvc/internal/registry"
)

type laneView struct {
	_         struct{}   `additionalProperties:"true"`
	Lane      string     `json:"lane"`
	Receivers int        `json:"receivers" doc:"How many are declared in it."`
	Paused    bool       `json:"paused"`
	PausedAt  *time.Time `json:"paused_at,omitempty"`
}

func showLane(l *registry.Lane) laneView {
	v := laneView{Lane: l.Name, Receivers: l.Receivers, Paused: l.PausedAt != nil}
	if l.PausedAt != nil {
		v.PausedAt = moment(*l.PausedAt)
	}
	return v
}

func (s *server) lanes(api huma.API) {
	op := operation(readsAll, http.MethodGet, "/v1/lanes", "list-lanes", "Lanes", "Every lane, by name", "A lane is there from the first receiver that was declared in it.")
	op.Errors = []int{401, 503}
	register(api, op, s.listLanes)
	for verb, paused := range map[string]bool{"pause": true, "resume": false} {
		op = operation(administers, http.MethodPost, "/v1/lanes/{lane}/"+verb, verb+"-lane", "Lanes", strings.ToUpper(verb[:1])+verb[1:]+" a lane",
			"In every process. What is owed in a paused lane stays owed and gets no request.")
		op.Errors = []int{401, 404, 503}
		register(api, op, func(ctx context.Context, in *struct {
			Lane string `path:"lane" example:"mail"`
		}) (*struct{ Body laneView }, error) {
			l, err := s.registry(ctx).PauseLane(ctx, in.Lane, paused)
			if err != nil {
				return nil, s.explain(ctx, err)
			}
			s.resumed(paused)
			return &struct{ Body laneView }{showLane(&l)}, nil
		})
	}
}

type lanesOutput struct {
	Body struct {
		_    struct{}   `additionalProperties:"true"`
		Data []laneView `json:"data"`
	}
}

func (s *server) listLanes(ctx context.Context, _ *struct{}) (*lanesOutput, error) {
	list, err := s.Registry.Lanes(ctx)
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	out := &lanesOutput{}
	out.Body.Data = []laneView{}
	for i := range list {
		out.Body.Data = append(out.Body.Data, showLane(&list[i]))
	}
	return out, nil
}
