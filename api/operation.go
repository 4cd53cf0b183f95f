package api

import (
	"context"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventsvc/eventsvc/internal/access"
)

// need is what an operation asks of its caller.
type need struct {
	scope access.Scope
	// whole says that the operation is about the whole service, and means nothing for one
	// tenant.
	whole bool
}

// What operations need.
var (
	fires       = need{scope: access.EventsWrite}
	reads       = need{scope: access.Read}
	declares    = need{scope: access.ReceiversWrite}
	operates    = need{scope: access.DeliveriesWrite}
	readsAll    = need{access.Read, true}
	declaresAll = need{access.ReceiversWrite, true}
	operatesAll = need{access.DeliveriesWrite, true}
	administers = need{access.Admin, true}
)

// needMetadata is where an operation keeps its need.
const needMetadata = "need"

// operation is what every operation of the API has in common. What it needs is said
// here, shown in the specification, and asked for by [server.admit].
func operation(needs need, method, path, id, tag, summary, description string) huma.Operation {
	return huma.Operation{
		Method: method, Path: path, OperationID: id, Summary: summary, Description: description, Tags: []string{tag},
		Security:        []map[string][]string{{"bearer": {string(needs.scope)}}},
		Metadata:        map[string]any{needMetadata: needs},
		MaxBodyBytes:    maxBody + 1,
		BodyReadTimeout: bodyReadTimeout,
	}
}

// register adds an operation, with the answers that any operation may give.
func register[I, O any](api huma.API, op huma.Operation, handle func(context.Context, *I) (*O, error)) {
	op.Errors = append(op.Errors, 401, 403, 429, 503)
	slices.Sort(op.Errors)
	op.Errors = slices.Compact(op.Errors)
	huma.Register(api, op, handle)
}

// registerPut adds an operation that declares: 201 is its answer where there was nothing
// before, and 200 where there was.
func registerPut[I, O any](api huma.API, op huma.Operation, handle func(context.Context, *I) (*O, error)) {
	stands := &huma.Response{Description: "It stood already, as declared or now so."}
	op.Responses = map[string]*huma.Response{"200": stands}
	register(api, op, handle)
	made := *stands
	made.Description = "It is new."
	op.Responses["201"] = &made
}
