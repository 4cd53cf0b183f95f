package api

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/jackc/pgx/v5"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/ledger"
	"github.com/eventsvc/eventsvc/internal/registry"
)

// maxImport bounds the body of an import of targets.
const maxImport = 8 << 20

// targetView is a target as the API shows it.
type targetView struct {
	_           struct{}          `additionalProperties:"true"`
	Target      string            `json:"target"`
	Receiver    string            `json:"receiver"`
	URL         string            `json:"url"`
	Tenant      string            `json:"tenant,omitempty"`
	Events      []event.Pattern   `json:"events,omitempty"`
	Filter      string            `json:"filter,omitempty"`
	Headers     map[string]string `json:"headers"`
	RateLimit   *event.Rate       `json:"rate_limit,omitempty" doc:"Its own; left out: the receiver's." example:"10/s"`
	Description string            `json:"description,omitempty"`
	Metadata    map[string]string `json:"metadata"`
	Paused      bool              `json:"paused"`
	Disabled    bool              `json:"disabled" doc:"Switched off after too many dead deliveries in a row; resume it."`
	DisabledAt  *time.Time        `json:"disabled_at,omitempty"`
	DeadInARow  int               `json:"dead_in_a_row" doc:"Deliveries that died since one last succeeded."`
	Version     int               `json:"version" doc:"The ETag's number."`
	CreatedAt   time.Time         `json:"created_at"`
	UpdatedAt   time.Time         `json:"updated_at"`
	Secret      string            `json:"secret,omitempty" doc:"The signing secret. Shown once: in the answer that made it."`
}

func showTarget(ctx context.Context, receiver string, t *registry.Target, dead int, secret event.Secret) targetView {
	d, _ := t.Declared()
	v := targetView{
		Target: called(ctx, t.Name), Receiver: called(ctx, receiver), URL: t.URL, Tenant: d.Tenant, Events: d.Events, Filter: d.Filter, Headers: d.Headers, RateLimit: d.RateLimit, Description: d.Description,
		Metadata: d.Metadata, Paused: t.PausedAt != nil, Disabled: t.DisabledAt != nil, DeadInARow: dead, Version: t.Version,
		CreatedAt: t.CreatedAt.UTC(), UpdatedAt: t.UpdatedAt.UTC(),
	}
	if t.DisabledAt != nil {
		v.DisabledAt = moment(*t.DisabledAt)
	}
	if v.Headers == nil {
		v.Headers = map[string]string{}
	}
	if v.Metadata == nil {
		v.Metadata = map[string]string{}
	}
	if secret != nil {
		v.Secret = secret.Reveal()
	}
	return v
}

// TargetName names a target in a path.
type TargetName struct {
	ReceiverKey
	Target string `path:"target" doc:"1-255 of A-Z, a-z, 0-9, dot, _ and -." example:"acme"`
}

type targetOutput struct {
	Status int
	ETag   string `header:"ETag"`
	Body   targetView
}

func (s *server) targets(api huma.API) {
	const path = "/v1/receivers/{key}/targets/{target}"
	op := operation(declares, http.MethodPut, path, "put-target", "Targets", "Declare a target of a fan-out receiver",
		"Idempotent and complete. Its signing secret is made by the service, or given, and shown once.")
	op.SkipValidateBody = true
	op.Errors = []int{400, 401, 404, 409, 412, 413, 415, 422, 503}
	registerPut(api, op, s.putTarget)
	documentBody[registry.TargetDeclaration](api, op, map[string]*huma.Example{"one": {Value: map[string]any{"url": "https://shop.example.com/hooks", "tenant": "acme"}}})

	op = operation(declares, http.MethodPost, "/v1/receivers/{key}/targets/import", "import-targets", "Targets", "Declare many targets",
		"Up to 10000, all or none, each as with PUT. The answer has the secrets that were made, once.")
	op.SkipValidateBody, op.MaxBodyBytes = true, maxImport+1
	op.Errors = []int{400, 401, 404, 409, 413, 415, 422, 503}
	register(api, op, s.importTargets)
	documentBody[importing](api, op, nil)

	op = operation(reads, http.MethodGet, path, "get-target", "Targets", "One target", "")
	op.Errors = []int{401, 404, 503}
	register(api, op, s.getTarget)

	op = operation(reads, http.MethodGet, "/v1/receivers/{key}/targets", "list-targets", "Targets", "Targets of a receiver, by name", "")
	op.Errors = []int{400, 401, 404, 422, 503}
	register(api, op, s.listTargets)

	op = operation(declares, http.MethodDelete, path, "delete-target", "Targets", "Delete a target", "Refused while deliveries are owed to it, unless owed says what becomes of them.")
	op.DefaultStatus = http.StatusNoContent
	op.Errors = []int{401, 404, 409, 412, 422, 503}
	register(api, op, s.deleteTarget)

	for verb, paused := range map[string]bool{"pause": true, "resume": false} {
		op = operation(declares, http.MethodPost, path+"/"+verb, verb+"-target", "Targets", strings.ToUpper(verb[:1])+verb[1:]+" a target",
			"A paused target keeps what it is owed and gets no request. Resuming also switches on one that was disabled.")
		op.Errors = []int{401, 404, 503}
		register(api, op, func(ctx context.Context, in *TargetName) (*targetOutput, error) {
			return s.pauseTarget(ctx, in, paused)
		})
	}
	s.rotations(api, path)
}

// rotations are the same for a receiver's own address and for a target.
func (s *server) rotations(api huma.API, path string) {
	for _, of := range []struct{ path, name, tag string }{{"/v1/receivers/{key}", "receiver", "Receivers"}, {path, "target", "Targets"}} {
		op := operation(declares, http.MethodPost, of.path+"/secret/rotate", "rotate-"+of.name+"-secret", of.tag, "Give it a new signing secret",
			"Until overlap has passed (default 24h), the old secrets sign too, newest first; 0s ends them at once, as after a leak. The new secret is shown once. The body may be left out.")
		op.SkipValidateBody = true
		op.Errors = []int{400, 401, 404, 413, 415, 422, 503}
		keys := operation(reads, http.MethodGet, of.path+"/keys", "get-"+of.name+"-keys", of.tag, "Public keys that verify its v1a signatures", "None, unless its signatures include v1a.")
		keys.Errors = []int{401, 404, 503}
		if of.name == "receiver" {
			register(api, op, func(ctx context.Context, in *struct {
				Request
				ReceiverKey
				RawBody []byte `contentType:"application/json"`
			}) (*rotatedOutput, error) {
				key, err := s.receiverKey(ctx, in.Key)
				if err != nil {
					return nil, s.explain(ctx, err)
				}
				return s.rotate(ctx, &in.Request, key, "", in.RawBody)
			})
			register(api, keys, func(ctx context.Context, in *ReceiverKey) (*keysOutput, error) {
				key, err := s.receiverKey(ctx, in.Key)
				if err != nil {
					return nil, s.explain(ctx, err)
				}
				return s.publicKeys(ctx, key, "")
			})
		} else {
			register(api, op, func(ctx context.Context, in *struct {
				Request
				TargetName
				RawBody []byte `contentType:"application/json"`
			}) (*rotatedOutput, error) {
				receiver, name, err := s.target(ctx, &in.TargetName)
				if err != nil {
					return nil, s.explain(ctx, err)
				}
				return s.rotate(ctx, &in.Request, receiver, name, in.RawBody)
			})
			register(api, keys, func(ctx context.Context, in *TargetName) (*keysOutput, error) {
				receiver, name, err := s.target(ctx, in)
				if err != nil {
					return nil, s.explain(ctx, err)
				}
				return s.publicKeys(ctx, receiver, name)
			})
		}
		documentBody[rotating](api, op, nil)
		api.OpenAPI().Paths[op.Path].Post.RequestBody.Required = false
	}
}

func (s *server) putTarget(ctx context.Context, in *struct {
	Request
	TargetName
	IfMatch string `header:"If-Match" doc:"The ETag that must be in force."`
	RawBody []byte `contentType:"application/json"`
}) (*targetOutput, error) {
	version, err := ifMatch(in.IfMatch)
	if err != nil {
		return nil, err
	}
	var t registry.NamedTarget
	if err := in.body(in.RawBody, &t.TargetDeclaration); err != nil {
		return nil, err
	}
	receiver, name, err := s.target(ctx, &in.TargetName)
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	t.Name = name
	if t.Tenant, err = bindTenant(ctx, "/tenant", t.Tenant); err != nil {
		return nil, s.explain(ctx, err)
	}
	if err := s.Registry.CheckTarget("", t.Name, &t.TargetDeclaration).Err(); err != nil {
		return nil, s.explain(ctx, err)
	}
	puts, err := s.registry(ctx).DeclareTargets(ctx, receiver, []registry.NamedTarget{t}, version)
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	status := http.StatusOK
	if puts[0].Created {
		status = http.StatusCreated
	}
	return s.targetOutput(ctx, receiver, &puts[0].Target, puts[0].Secret, status)
}

func (s *server) targetOutput(ctx context.Context, receiver string, t *registry.Target, secret event.Secret, status int) (*targetOutput, error) {
	dead, err := s.Ledger.DeadInARow(ctx, []event.TargetID{t.ID})
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	return &targetOutput{status, etag(t.Version), showTarget(ctx, receiver, t, dead[t.ID], secret)}, nil
}

// importing is the body of an import.
type importing struct {
	Targets []importedTarget `json:"targets" maxItems:"10000"`
}

type importedTarget struct {
	Target string `json:"target" doc:"Its name."`
	registry.TargetDeclaration
}

type importOutput struct {
	Body struct {
		_       struct{}         `additionalProperties:"true"`
		Created int              `json:"created"`
		Data    []importedSecret `json:"data" doc:"Those that were created, with their secrets."`
	}
}

type importedSecret struct {
	Target string `json:"target"`
	Secret string `json:"secret"`
}

func (s *server) importTargets(ctx context.Context, in *struct {
	Request
	ReceiverKey
	RawBody []byte `contentType:"application/json"`
}) (*importOutput, error) {
	var b importing
	if err := in.body(in.RawBody, &b); err != nil {
		return nil, err
	}
	receiver, err := s.fanOutKey(ctx, in.Key)
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	list, err := s.readImport(ctx, receiver, &b)
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	out := &importOutput{}
	out.Body.Data = []importedSecret{}
	if len(list) == 0 {
		return out, nil
	}
	puts, err := s.registry(ctx).DeclareTargets(ctx, receiver, list, 0)
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	for _, p := range puts {
		if p.Created {
			out.Body.Created++
			out.Body.Data = append(out.Body.Data, importedSecret{called(ctx, p.Target.Name), p.Secret.Reveal()})
		}
	}
	return out, nil
}

func (s *server) readImport(ctx context.Context, receiver string, b *importing) (list []registry.NamedTarget, err error) {
	if len(b.Targets) > registry.MaxTargets {
		return nil, event.Flaws{{Pointer: "/targets", Message: fmt.Sprintf("are %d; at most %d are allowed at a time", len(b.Targets), registry.MaxTargets)}}
	}
	names := make([]string, len(b.Targets))
	for i, t := range b.Targets {
		names[i] = t.Target
	}
	if names, err = s.targetNames(ctx, receiver, names); err != nil {
		return nil, err
	}
	var flaws event.Flaws
	seen := map[string]bool{}
	for i, t := range b.Targets {
		at := fmt.Sprintf("/targets/%d", i)
		if seen[t.Target] {
			flaws.Add(at+"/target", "is named twice")
		}
		seen[t.Target] = true
		if t.Tenant, err = bindTenant(ctx, at+"/tenant", t.Tenant); err != nil {
			return nil, err
		}
		flaws = append(flaws, s.Registry.CheckTarget(at, names[i], &t.TargetDeclaration)...)
		list = append(list, registry.NamedTarget{Name: names[i], TargetDeclaration: t.TargetDeclaration})
	}
	return list, flaws[:min(len(flaws), 100)].Err()
}

func (s *server) getTarget(ctx context.Context, in *TargetName) (*targetOutput, error) {
	receiver, name, err := s.target(ctx, in)
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	t, err := s.Registry.FindTarget(ctx, receiver, name)
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	return s.targetOutput(ctx, receiver, &t, nil, http.StatusOK)
}

func (s *server) listTargets(ctx context.Context, in *struct {
	PageInput
	ReceiverKey
}) (*page[targetView], error) {
	path := "receivers/" + in.Key + "/targets"
	after, err := in.after(path)
	if err != nil {
		return nil, err
	}
	receiver, err := s.fanOutKey(ctx, in.Key)
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	list, err := s.Registry.Targets(ctx, receiver, tenantOf(ctx), after, in.Limit+1)
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	ids := make([]event.TargetID, len(list))
	for i := range list {
		ids[i] = list[i].ID
	}
	dead, err := s.Ledger.DeadInARow(ctx, ids)
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	return turnPage(&in.PageInput, path, list, func(t *registry.Target) targetView { return showTarget(ctx, receiver, t, dead[t.ID], nil) },
		func(t *registry.Target) string { return t.Name }), nil
}

func (s *server) deleteTarget(ctx context.Context, in *struct {
	TargetName
	IfMatch string `header:"If-Match" doc:"The ETag that must be in force."`
	Owed    string `query:"owed" enum:"orphan,cancel" doc:"What becomes of deliveries that are still owed."`
}) (*struct{}, error) {
	version, err := ifMatch(in.IfMatch)
	if err != nil {
		return nil, err
	}
	receiver, name, err := s.target(ctx, &in.TargetName)
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	gone, err := s.registry(ctx).RemoveTarget(ctx, receiver, name, version, func(ctx context.Context, tx pgx.Tx, targets []event.TargetID) error {
		return owesNothing(ctx, tx, targets, in.Owed)
	})
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	return nil, s.explainIf(ctx, s.endOwed(ctx, gone, in.Owed))
}

func (s *server) pauseTarget(ctx context.Context, in *TargetName, paused bool) (*targetOutput, error) {
	receiver, name, err := s.target(ctx, in)
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	t, err := s.registry(ctx).PauseTarget(ctx, receiver, name, paused, func(ctx context.Context, tx pgx.Tx, id event.TargetID) error {
		if paused {
			return nil
		}
		return ledger.Heal(ctx, tx, id)
	})
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	s.resumed(paused)
	return s.targetOutput(ctx, receiver, &t, nil, http.StatusOK)
}

// rotating is the body of a rotation.
type rotating struct {
	Secret  *string         `json:"secret,omitempty" doc:"The new secret, instead of a generated one: whsec_ and base64 of 24-64 bytes."`
	Overlap *event.Duration `json:"overlap,omitempty" doc:"For how long the old ones sign too; default 1d, 0s: not at all."`
}

type rotatedOutput struct {
	Body struct {
		_         struct{} `additionalProperties:"true"`
		Secret    string   `json:"secret" doc:"Shown once."`
		PublicKey string   `json:"public_key,omitempty" doc:"The new one for v1a, where it signs so."`
	}
}

// maxOverlap bounds for how long two secrets sign.
const maxOverlap = 30 * 24 * time.Hour

func (s *server) rotate(ctx context.Context, in *Request, receiver, target string, body []byte) (*rotatedOutput, error) {
	var b rotating
	if len(bytes.TrimSpace(body)) > 0 {
		if err := in.body(body, &b); err != nil {
			return nil, err
		}
	}
	var flaws event.Flaws
	var given event.Secret
	if b.Secret != nil {
		var err error
		if given, err = event.ParseSecret(*b.Secret); err != nil {
			flaws.Add("/secret", err.Error())
		}
	}
	overlap := registry.DefaultOverlap
	if b.Overlap != nil {
		overlap = time.Duration(*b.Overlap)
	}
	if overlap > maxOverlap {
		flaws.Add("/overlap", fmt.Sprintf("is longer than %s", event.Duration(maxOverlap)))
	}
	if err := flaws.Err(); err != nil {
		return nil, s.explain(ctx, err)
	}
	done, err := s.registry(ctx).Rotate(ctx, receiver, target, slices.Clone(given), overlap)
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	out := &rotatedOutput{}
	out.Body.Secret, out.Body.PublicKey = done.Secret.Reveal(), done.Public
	return out, nil
}

type keysOutput struct {
	Body struct {
		_    struct{}    `additionalProperties:"true"`
		Data []publicKey `json:"data" doc:"Newest first."`
	}
}

type publicKey struct {
	Signature event.Signature `json:"signature" enum:"v1a"`
	PublicKey string          `json:"public_key" doc:"whpk_ and base64 of an Ed25519 key."`
}

func (s *server) publicKeys(ctx context.Context, receiver, target string) (*keysOutput, error) {
	keys, err := s.Registry.PublicKeys(ctx, receiver, target)
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	out := &keysOutput{}
	out.Body.Data = []publicKey{}
	for _, k := range keys {
		out.Body.Data = append(out.Body.Data, publicKey{event.SignV1a, k})
	}
	return out, nil
}
