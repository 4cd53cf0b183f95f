package api

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"slices"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/registry"
	"github.com/eventsvc/eventsvc/internal/spelling"
)

const mediaMergePatch = "application/merge-patch+json"

func (s *server) patches(api huma.API) {
	const says = "A JSON merge patch (RFC 7396): what it names is changed, null is back at its default, and the rest stays. Two that patch at once both stand. The signing secret is not changed; rotate it."
	op := operation(declares, http.MethodPatch, "/v1/receivers/{key}", "patch-receiver", "Receivers", "Change some of a receiver", says)
	op.SkipValidateBody, op.Errors = true, []int{400, 404, 409, 412, 413, 415, 422}
	register(api, op, s.patchReceiver)
	documentPatch[registry.Declaration](api, op, map[string]any{"max_attempts": 8, "description": nil})

	op = operation(declares, http.MethodPatch, "/v1/receivers/{key}/targets/{target}", "patch-target", "Targets", "Change some of a target", says)
	op.SkipValidateBody, op.Errors = true, []int{400, 404, 409, 412, 413, 415, 422}
	register(api, op, s.patchTarget)
	documentPatch[registry.TargetDeclaration](api, op, map[string]any{"url": "https://shop.example.com/new-hooks"})
}

// documentPatch documents a body in which nothing is required and everything may be null.
func documentPatch[T any](api huma.API, op huma.Operation, example map[string]any) {
	documentBody[T](api, op, map[string]*huma.Example{"some": {Value: example}})
	body := api.OpenAPI().Paths[op.Path].Patch.RequestBody
	schema := *body.Content["application/json"].Schema
	schema.Required = nil
	schema.Properties = map[string]*huma.Schema{}
	for name, of := range body.Content["application/json"].Schema.Properties {
		optional := *of
		optional.Nullable, optional.MinItems = true, nil
		schema.Properties[name] = &optional
	}
	media := &huma.MediaType{Schema: &schema, Examples: body.Content["application/json"].Examples}
	body.Content = map[string]*huma.MediaType{mediaMergePatch: media, "application/json": media}
}

func (s *server) patchReceiver(ctx context.Context, in *struct {
	Request
	ReceiverKey
	IfMatch string `header:"If-Match" doc:"The ETag that must be in force."`
	RawBody []byte `contentType:"application/merge-patch+json"`
}) (*receiverOutput, error) {
	version, err := ifMatch(in.IfMatch)
	if err != nil {
		return nil, err
	}
	patch, err := in.patch(in.RawBody, typeOf[registry.Declaration]())
	if err != nil {
		return nil, err
	}
	key, err := s.receiverKey(ctx, in.Key)
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	put, err := s.registry(ctx).Amend(ctx, key, version, func(old registry.Declaration) (registry.Declaration, error) {
		d, err := patched(old, patch)
		if err != nil {
			return d, err
		}
		if err := bindDeclaration(ctx, old.Lane, &d); err != nil {
			return d, err
		}
		if err := registry.CheckKey(key, d.Tenant); err != nil {
			return d, event.Flaws{{Pointer: "/tenant", Message: "does not go with the receiver's key, which " + err.Error()}}
		}
		return d, s.Registry.Check(&d)
	})
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	return s.receiverOutput(ctx, &put.Receiver, put.Secret, http.StatusOK), nil
}

func (s *server) patchTarget(ctx context.Context, in *struct {
	Request
	TargetName
	IfMatch string `header:"If-Match" doc:"The ETag that must be in force."`
	RawBody []byte `contentType:"application/merge-patch+json"`
}) (*targetOutput, error) {
	version, err := ifMatch(in.IfMatch)
	if err != nil {
		return nil, err
	}
	patch, err := in.patch(in.RawBody, typeOf[registry.TargetDeclaration]())
	if err != nil {
		return nil, err
	}
	receiver, name, err := s.target(ctx, &in.TargetName)
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	put, err := s.registry(ctx).AmendTarget(ctx, receiver, name, version, func(old registry.TargetDeclaration) (registry.TargetDeclaration, error) {
		d, err := patched(old, patch)
		if err != nil {
			return d, err
		}
		if d.Tenant, err = bindTenant(ctx, "/tenant", d.Tenant); err != nil {
			return d, err
		}
		return d, s.Registry.CheckTarget("", name, &d).Err()
	})
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	return s.targetOutput(ctx, receiver, &put.Target, nil, http.StatusOK)
}

// patch reads a merge patch for a struct: an object whose members are known. A null for a
// member that is not known would otherwise change nothing, and say nothing.
func (r *Request) patch(body []byte, of reflect.Type) (map[string]jsontext.Value, error) {
	patch := map[string]jsontext.Value{}
	if err := r.body(body, &patch); err != nil {
		return nil, err
	}
	known := members(of, nil)
	var flaws event.Flaws
	for name := range patch {
		if !slices.Contains(known, name) {
			flaws.Add("/"+event.PointerToken(name), "is not known here"+spelling.DidYouMean(name, known))
		}
	}
	slices.SortFunc(flaws, func(x, y event.Flaw) int { return slices.Compare([]byte(x.Pointer), []byte(y.Pointer)) })
	if err := flaws.Err(); err != nil {
		return nil, invalid(flaws)
	}
	return patch, nil
}

// patched is what a merge patch makes of a declaration.
func patched[T any](old T, patch map[string]jsontext.Value) (d T, err error) {
	before, err := json.Marshal(old)
	if err != nil {
		return d, fmt.Errorf("encode a declaration: %w", err)
	}
	whole := map[string]jsontext.Value{}
	if err := json.Unmarshal(before, &whole); err != nil {
		return d, fmt.Errorf("read a declaration: %w", err)
	}
	if err := merge(whole, patch); err != nil {
		return d, err
	}
	after, err := json.Marshal(whole)
	if err != nil {
		return d, fmt.Errorf("encode a declaration: %w", err)
	}
	return d, decode(after, &d)
}

// merge is RFC 7396, section 2, for objects.
func merge(into, patch map[string]jsontext.Value) error {
	for name, value := range patch {
		switch value.Kind() {
		case 'n':
			delete(into, name)
		case '{':
			inner, part := map[string]jsontext.Value{}, map[string]jsontext.Value{}
			if of := into[name]; of.Kind() == '{' {
				if err := json.Unmarshal(of, &inner); err != nil {
					return fmt.Errorf("read a declaration: %w", err)
				}
			}
			if err := json.Unmarshal(value, &part); err != nil {
				return fault(err, &part)
			}
			if err := merge(inner, part); err != nil {
				return err
			}
			merged, err := json.Marshal(inner)
			if err != nil {
				return fmt.Errorf("encode a declaration: %w", err)
			}
			into[name] = merged
		default:
			into[name] = value
		}
	}
	return nil
}
