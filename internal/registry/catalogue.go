package registry

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/eventsvc/eventsvc/internal/event"
)

// Catalogue is every event type and receiver with its terms, for people and programs to
// read: what there is to listen to, and who listens. It names no address and no secret.
// Its order is that of the names, so that two catalogues of the same declarations are
// the same.
type Catalogue struct {
	Types     []CataloguedType     `json:"types" doc:"Declared types, and those that a receiver names."`
	Wildcards []Wildcard           `json:"wildcards" doc:"Who listens to more than one type."`
	Receivers []CataloguedReceiver `json:"receivers"`
}

// CataloguedType is one event type.
type CataloguedType struct {
	Type        string          `json:"type"`
	Declared    bool            `json:"declared"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema,omitempty"`
	Example     json.RawMessage `json:"example,omitempty"`
	Retention   string          `json:"retention,omitempty" doc:"Left out: the service's own window."`
	// Listeners name it; those behind a wildcard are not among them.
	Listeners []string `json:"listeners" doc:"Receivers that name the type itself, by key."`
}

// Wildcard is one pattern for many types.
type Wildcard struct {
	Pattern  event.Pattern `json:"pattern"`
	Receiver string        `json:"receiver"`
}

// CataloguedReceiver is one receiver with its terms, every default filled in.
type CataloguedReceiver struct {
	Receiver       string          `json:"receiver"`
	Description    string          `json:"description,omitempty"`
	Events         []event.Pattern `json:"events"`
	Mode           event.Mode      `json:"mode" enum:"durable,on_commit,inline"`
	Site           string          `json:"site"`
	Eager          bool            `json:"eager"`
	Lane           string          `json:"lane"`
	Tenant         string          `json:"tenant,omitempty"`
	Filter         string          `json:"filter,omitempty"`
	Destination    string          `json:"destination" doc:"What kind of one; never the address."`
	Format         event.Format    `json:"format"`
	MaxAttempts    int             `json:"max_attempts"`
	BackoffBase    event.Duration  `json:"backoff_base"`
	BackoffCap     event.Duration  `json:"backoff_cap"`
	Longest        event.Duration  `json:"longest" doc:"The longest that retrying can last."`
	Mean           event.Duration  `json:"mean" doc:"How long it lasts on average."`
	Timeout        event.Duration  `json:"timeout"`
	Lease          event.Duration  `json:"lease"`
	GiveUpAfter    *event.Duration `json:"give_up_after,omitempty"`
	CountDeferrals bool            `json:"count_deferrals"`
	Due            *event.Duration `json:"due,omitempty"`
	RateLimit      *event.Rate     `json:"rate_limit,omitempty"`
	Paused         bool            `json:"paused"`
}

// catalogued is how many receivers or types are read at a time.
const catalogued = 1000

// Catalogue reads the catalogue.
func (r *Registry) Catalogue(ctx context.Context) (Catalogue, error) {
	c := Catalogue{Types: []CataloguedType{}, Wildcards: []Wildcard{}, Receivers: []CataloguedReceiver{}}
	receivers, err := all(ctx, func(ctx context.Context, after string, limit int) ([]Receiver, error) {
		return r.List(ctx, "", after, limit)
	}, func(x Receiver) string { return x.Key })
	if err != nil {
		return c, err
	}
	types, err := all(ctx, r.Types, func(x EventType) string { return x.Name })
	if err != nil {
		return c, err
	}
	byName := map[string]*CataloguedType{}
	for _, t := range types {
		byName[t.Name] = &CataloguedType{Type: t.Name, Declared: true, Description: t.Description, Schema: t.Schema, Example: t.Example, Retention: t.Retention, Listeners: []string{}}
	}
	for i := range receivers {
		declared, _ := receivers[i].Declared()
		c.Receivers = append(c.Receivers, r.catalogued(&receivers[i], &declared))
		c.listen(receivers[i].Key, declared.Events, byName)
	}
	for _, t := range byName {
		slices.Sort(t.Listeners)
		c.Types = append(c.Types, *t)
	}
	slices.SortFunc(c.Types, func(x, y CataloguedType) int { return strings.Compare(x.Type, y.Type) })
	slices.SortFunc(c.Wildcards, func(x, y Wildcard) int {
		return strings.Compare(string(x.Pattern)+"\x00"+x.Receiver, string(y.Pattern)+"\x00"+y.Receiver)
	})
	return c, nil
}

// listen enters what a receiver wants: under the types that it names, or as a wildcard.
func (c *Catalogue) listen(key string, wants []event.Pattern, byName map[string]*CataloguedType) {
	for _, p := range wants {
		if strings.HasSuffix(string(p), "*") {
			c.Wildcards = append(c.Wildcards, Wildcard{p, key})
			continue
		}
		t := byName[string(p)]
		if t == nil {
			t = &CataloguedType{Type: string(p), Listeners: []string{}}
			byName[string(p)] = t
		}
		t.Listeners = append(t.Listeners, key)
	}
}

func (r *Registry) catalogued(x *Receiver, d *Declaration) CataloguedReceiver {
	used := d.Resolve(x.Key, r.o.Defaults)
	longest := used.Longest(used.MaxAttempts)
	wants := d.Events
	if wants == nil {
		wants = []event.Pattern{}
	}
	return CataloguedReceiver{
		Receiver: x.Key, Description: d.Description, Events: wants, Mode: used.Mode, Site: d.site(), Eager: used.Eager, Lane: used.Lane, Tenant: used.Tenant, Filter: d.Filter,
		Destination: d.destination(), Format: used.Format, MaxAttempts: used.MaxAttempts, BackoffBase: event.Duration(used.Base), BackoffCap: event.Duration(used.Cap),
		Longest: event.Duration(longest), Mean: event.Duration(longest / 2), Timeout: event.Duration(used.Timeout), Lease: event.Duration(used.Lease),
		GiveUpAfter: d.GiveUpAfter, CountDeferrals: used.CountDeferrals, Due: d.Due, RateLimit: d.RateLimit, Paused: x.PausedAt != nil,
	}
}

// destination is the kind of where a receiver's deliveries go.
func (d *Declaration) destination() string {
	if d.Pulled() {
		return "workers"
	}
	return "url"
}

// all reads a list page by page.
func all[T any](ctx context.Context, list func(ctx context.Context, after string, limit int) ([]T, error), key func(T) string) ([]T, error) {
	var whole []T
	after := ""
	for {
		page, err := list(ctx, after, catalogued)
		if err != nil {
			return nil, err
		}
		whole = append(whole, page...)
		if len(page) < catalogued {
			return whole, nil
		}
		after = key(page[len(page)-1])
	}
}
