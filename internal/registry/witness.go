package registry

import (
	"context"
	"encoding/json"
	"net/url"

	"github.com/jackc/pgx/v5"
)

// Change is one thing that a write changed.
type Change struct {
	Action string // the operation, such as put-receiver
	Object string // what it was done to, such as receivers/shop
	// Tenant is whose the object was before, or is where it is new; "": the whole
	// service's.
	Tenant string
	// Before and After are encoded as JSON and hold no secret: of headers they have the
	// names, and of URLs no query. Nil is nothing.
	Before, After any
}

// Witness is told of the changes of a write within its transaction: it may write of them,
// and an error takes all back.
type Witness func(ctx context.Context, tx pgx.Tx, changes []Change) error

// Before is the registry whose changes have a witness.
func (r *Registry) Before(w Witness) *Registry {
	watched := *r
	watched.witness = w
	return &watched
}

func (r *Registry) tell(ctx context.Context, tx pgx.Tx, changes ...Change) error {
	if r.witness == nil || len(changes) == 0 {
		return nil
	}
	return r.witness(ctx, tx, changes)
}

// tellReceiver tells of a change to a receiver; nil is none.
func (r *Registry) tellReceiver(ctx context.Context, tx pgx.Tx, action string, before, after *Receiver) error {
	c := Change{Action: action}
	if after != nil {
		c.Object, c.Tenant, c.After = "receivers/"+after.Key, after.tenant(), toldReceiver(after)
	}
	if before != nil {
		c.Object, c.Tenant, c.Before = "receivers/"+before.Key, before.tenant(), toldReceiver(before)
	}
	return r.tell(ctx, tx, c)
}

// targetChange is a change to a target; nil is none.
func targetChange(action, receiver string, before, after *Target) Change {
	c := Change{Action: action}
	if after != nil {
		c.Object, c.Tenant, c.After = "receivers/"+receiver+"/targets/"+after.Name, after.tenant(), toldTarget(after)
	}
	if before != nil {
		c.Object, c.Tenant, c.Before = "receivers/"+receiver+"/targets/"+before.Name, before.tenant(), toldTarget(before)
	}
	return c
}

func (r *Receiver) tenant() string {
	d, _ := r.Declared()
	return d.Tenant
}

func (t *Target) tenant() string {
	d, _ := t.Declared()
	return d.Tenant
}

// toldDeclaration is a declaration of either kind as a witness is told of it, with how
// it stands.
func toldDeclaration(stored json.RawMessage, address string, state map[string]bool) map[string]any {
	told := map[string]any{}
	if err := json.Unmarshal(stored, &told); err != nil {
		told = map[string]any{"unreadable": true}
	}
	if address != "" {
		told["url"] = withoutQuery(address)
	}
	if headers, ok := told["headers"].(map[string]any); ok {
		for name := range headers {
			headers[name] = "(not shown)"
		}
	}
	if f, ok := told["on_failure"].(map[string]any); ok {
		if to, ok := f["url"].(string); ok {
			f["url"] = withoutQuery(to)
		}
	}
	for name, is := range state {
		told[name] = is
	}
	return told
}

func toldReceiver(r *Receiver) map[string]any {
	return toldDeclaration(r.Declaration, r.URL, map[string]bool{"paused": r.PausedAt != nil})
}

func toldTarget(t *Target) map[string]any {
	return toldDeclaration(t.Declaration, t.URL, map[string]bool{"paused": t.PausedAt != nil, "disabled": t.DisabledAt != nil})
}

func toldType(t *EventType) map[string]any {
	told := map[string]any{"description": t.Description}
	for name, text := range map[string][]byte{"schema": t.Schema, "example": t.Example} {
		if len(text) > 0 {
			told[name] = json.RawMessage(text)
		}
	}
	if t.Retention != "" {
		told["retention"] = t.Retention
	}
	return told
}

// withoutQuery is a URL without its query, which may hold a token.
func withoutQuery(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "(not shown)"
	}
	u.RawQuery, u.User, u.Fragment = "", nil, ""
	return u.String()
}

// told are the changes that a declaration of targets came to.
func told(receiver string, puts []PutTarget, known map[string]Target, changed []NamedTarget) []Change {
	now := make(map[string]*Target, len(puts))
	for i := range puts {
		now[puts[i].Target.Name] = &puts[i].Target
	}
	changes := make([]Change, 0, len(changed))
	for _, t := range changed {
		var before *Target
		if old, ok := known[t.Name]; ok {
			before = &old
		}
		changes = append(changes, targetChange("put-target", receiver, before, now[t.Name]))
	}
	return changes
}

// toldSecret tells of new secrets: that there are, and for how long the old ones sign.
func toldSecret(receiver, target, overlap, tenant string) Change {
	object := "receivers/" + receiver
	if target != "" {
		object += "/targets/" + target
	}
	return Change{Action: "rotate-secret", Object: object, Tenant: tenant, After: map[string]any{"overlap": overlap}}
}
