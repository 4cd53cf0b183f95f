package api

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventsvc/eventsvc/internal/access"
	"github.com/eventsvc/eventsvc/internal/event"
)

// keyDraft is the body that asks for an API key.
type keyDraft struct {
	Name      string       `json:"name" maxLength:"100" doc:"What it is for." example:"shop backend"`
	Owner     string       `json:"owner,omitempty" maxLength:"100" doc:"Whose it is. Keys of one owner and tenant share their idempotency keys, so that a new key takes over from an old one. Left out: the name."`
	Scopes    []string     `json:"scopes" minItems:"1" enum:"events:write,read,receivers:write,deliveries:write,admin" doc:"What it is good for; admin holds all the others."`
	Tenant    string       `json:"tenant,omitempty" maxLength:"255" doc:"Binds the key to one tenant: its fires are that tenant's, and it sees and touches nothing else."`
	ExpiresAt *time.Time   `json:"expires_at,omitempty" doc:"When it ends. Left out: never."`
	Rate      *access.Rate `json:"rate,omitempty" doc:"Bounds its calls, in each process. burst is how many may come at once; left out, it is per_second."`
}

func (b *keyDraft) draft() access.Draft {
	d := access.Draft{Name: b.Name, Owner: b.Owner, Tenant: b.Tenant}
	for _, s := range b.Scopes {
		d.Scopes = append(d.Scopes, access.Scope(s))
	}
	if b.ExpiresAt != nil {
		d.ExpiresAt = *b.ExpiresAt
	}
	if b.Rate != nil {
		d.Rate = *b.Rate
	}
	return d
}

// keyView is an API key as the API shows it.
type keyView struct {
	_          struct{}     `additionalProperties:"true"`
	ID         string       `json:"id" example:"key_01jxkg2c8zf3v9e4m6r7t8w9yc"`
	Name       string       `json:"name"`
	Owner      string       `json:"owner"`
	Prefix     string       `json:"prefix" doc:"How it begins." example:"esk_3vK9dQ"`
	Scopes     []string     `json:"scopes"`
	Tenant     string       `json:"tenant,omitempty"`
	Rate       *access.Rate `json:"rate,omitempty"`
	CreatedAt  time.Time    `json:"created_at"`
	ExpiresAt  *time.Time   `json:"expires_at,omitempty"`
	RevokedAt  *time.Time   `json:"revoked_at,omitempty"`
	LastUsedAt *time.Time   `json:"last_used_at,omitempty" doc:"To some minutes."`
	Key        string       `json:"key,omitempty" doc:"What opens. Shown once: in the answer that made it."`
}

func showKey(k *access.Key) keyView {
	v := keyView{
		ID: k.ID.Text(event.KeyPrefix), Name: k.Name, Owner: k.Owner, Prefix: k.Prefix, Scopes: []string{}, Tenant: k.Tenant, CreatedAt: k.CreatedAt.UTC(),
		ExpiresAt: k.ExpiresAt, RevokedAt: k.RevokedAt, LastUsedAt: k.LastUsedAt,
	}
	for _, s := range k.Scopes {
		v.Scopes = append(v.Scopes, string(s))
	}
	if k.Rate.PerSecond > 0 {
		v.Rate = &k.Rate
	}
	return v
}

type keyOutput struct {
	Body keyView
}

func (s *server) keys(api huma.API) {
	op := operation(administers, http.MethodPost, "/v1/api-keys", "create-api-key", "API keys", "Make an API key",
		"The key is shown in this answer alone; its hash is kept. Idempotency keys are those of its owner and tenant.")
	op.DefaultStatus, op.SkipValidateBody = http.StatusCreated, true
	op.Errors = []int{400, 413, 415, 422}
	register(api, op, s.createKey)
	documentBody[keyDraft](api, op, map[string]*huma.Example{"shop": {Value: map[string]any{"name": "shop backend", "scopes": []string{"events:write"}}}})

	op = operation(administers, http.MethodGet, "/v1/api-keys", "list-api-keys", "API keys", "API keys, newest first", "Those that were revoked among them.")
	op.Errors = []int{400, 422}
	register(api, op, s.listKeys)

	op = operation(administers, http.MethodDelete, "/v1/api-keys/{id}", "revoke-api-key", "API keys", "Revoke an API key",
		"Once this is answered, no process lets the key in. It stays listed.")
	op.DefaultStatus, op.Errors = http.StatusNoContent, []int{404}
	register(api, op, s.revokeKey)

	op = operation(administers, http.MethodGet, "/v1/audit", "list-audit", "API keys", "Who changed what, newest first",
		"Every change that was asked for over this API or a command: what was before and after, and never a secret. Operations on many are noted before they begin, with what was asked, and after with what they came to.")
	op.Errors = []int{400, 422}
	register(api, op, s.listAudit)
}

// noteView is a noted change as the API shows it.
type noteView struct {
	_      struct{}        `additionalProperties:"true"`
	ID     string          `json:"id" example:"aud_01jxkg2c8zf3v9e4m6r7t8w9yd"`
	At     time.Time       `json:"at"`
	KeyID  string          `json:"key_id,omitempty" doc:"Of the API key; none is the operator's own."`
	Actor  string          `json:"actor" doc:"The key's name at the time."`
	Action string          `json:"action" example:"put-receiver"`
	Object string          `json:"object" example:"receivers/shop.fulfilment"`
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"`
}

func showNote(n *access.Noted) noteView {
	v := noteView{ID: n.ID.Text(event.AuditPrefix), At: n.At.UTC(), Actor: n.Actor, Action: n.Action, Object: n.Object, Before: n.Before, After: n.After}
	if !n.KeyID.IsZero() {
		v.KeyID = n.KeyID.Text(event.KeyPrefix)
	}
	return v
}

func (s *server) listAudit(ctx context.Context, in *PageInput) (*page[noteView], error) {
	below, err := in.start("audit", event.AuditPrefix)
	if err != nil {
		return nil, err
	}
	list, err := s.Keys.Audit(ctx, below, in.Limit+1)
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	return turnPage(in, "audit", list, showNote, func(n *access.Noted) string { return n.ID.Text(event.AuditPrefix) }), nil
}

func (s *server) createKey(ctx context.Context, in *bulkInput) (*keyOutput, error) {
	var b keyDraft
	if err := in.body(in.RawBody, &b); err != nil {
		return nil, err
	}
	d := b.draft()
	if err := d.Check(time.Now()).Err(); err != nil {
		return nil, s.explain(ctx, err)
	}
	k, opens, err := s.Keys.Issue(ctx, caller(ctx), d)
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	out := &keyOutput{Body: showKey(&k)}
	out.Body.Key = opens
	return out, nil
}

func (s *server) listKeys(ctx context.Context, in *PageInput) (*page[keyView], error) {
	below, err := in.start("api-keys", event.KeyPrefix)
	if err != nil {
		return nil, err
	}
	list, err := s.Keys.List(ctx, below, in.Limit+1)
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	return turnPage(in, "api-keys", list, showKey, func(k *access.Key) string { return k.ID.Text(event.KeyPrefix) }), nil
}

func (s *server) revokeKey(ctx context.Context, in *struct {
	ID string `path:"id" example:"key_01jxkg2c8zf3v9e4m6r7t8w9yc"`
}) (*struct{}, error) {
	id, err := event.ParseID(event.KeyPrefix, in.ID)
	if err != nil {
		return nil, s.explain(ctx, access.ErrNotFound)
	}
	_, err = s.Keys.Revoke(ctx, caller(ctx), id)
	return nil, s.explainIf(ctx, err)
}
