package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/pg"
)

// TargetDeclaration is what is declared of one target of a fan-out receiver. What it
// leaves out is as the receiver says.
type TargetDeclaration struct {
	URL         string            `json:"url,omitempty" doc:"Where its events are POSTed: http or https." maxLength:"2000" example:"https://shop.example.com/hooks"`
	Secret      *string           `json:"secret,omitempty" doc:"Signing secret to use instead of a generated one: whsec_ and base64 of 24-64 bytes. Write only."`
	Tenant      string            `json:"tenant,omitempty" doc:"Only this tenant's events." maxLength:"255"`
	Events      []event.Pattern   `json:"events,omitempty" doc:"Of the receiver's events only these. Default: all of them." maxItems:"200"`
	Filter      string            `json:"filter,omitempty" doc:"Of those only events that meet this condition, in CEL over event, on top of the receiver's." maxLength:"4096" example:"event.data.total > 100"`
	Headers     map[string]string `json:"headers,omitempty" doc:"Static extra headers, over the receiver's."`
	RateLimit   *event.Rate       `json:"rate_limit,omitempty" doc:"Attempts begun in any span of that length, such as 300/m. Default: the receiver's." example:"10/s"`
	Description string            `json:"description,omitempty" maxLength:"1000"`
	Metadata    map[string]string `json:"metadata,omitempty" doc:"Flat strings for your own use."`
}

// Target is a target as it stands.
type Target struct {
	ID          event.TargetID
	Name        string
	URL         string
	Declaration json.RawMessage
	Version     int // the ETag
	PausedAt    *time.Time
	DisabledAt  *time.Time
	CreatedAt   time.Time
	UpdatedAt   time.Time
}

// Declared is the declaration as it was written, with its address.
func (t *Target) Declared() (d TargetDeclaration, flaw string) {
	if err := json.Unmarshal(t.Declaration, &d); err != nil {
		return TargetDeclaration{URL: t.URL}, "the stored declaration cannot be decoded: " + err.Error()
	}
	d.URL = t.URL
	return d, ""
}

// Errors about targets.
var (
	ErrNoTarget = errors.New("there is no such target")
	// ErrNoFanOut says that a receiver has one address of its own and no targets.
	ErrNoFanOut = errors.New("the receiver has no targets")
)

// MaxTargets bounds the targets of one declaration.
const MaxTargets = 10_000

// CheckTarget lists everything that is wrong with the declaration of a target, below a
// pointer.
func (r *Registry) CheckTarget(below, name string, d *TargetDeclaration) event.Flaws {
	var flaws event.Flaws
	if err := CheckKey(name, d.Tenant); err != nil {
		flaws.Add("", "the name of a target "+err.Error())
	}
	if d.URL == "" {
		flaws.Add("/url", "is required")
	} else if err := r.o.CheckURL(d.URL); err != nil {
		flaws.Add("/url", err.Error())
	}
	if d.Secret != nil {
		if _, err := event.ParseSecret(*d.Secret); err != nil {
			flaws.Add("/secret", err.Error())
		}
	}
	if len(d.Events) > maxPatterns {
		flaws.Add("/events", fmt.Sprintf("holds %d patterns; at most %d are allowed", len(d.Events), maxPatterns))
	}
	for i, p := range d.Events {
		if err := p.Check(); err != nil {
			flaws.Add(fmt.Sprintf("/events/%d", i), err.Error())
		}
	}
	checkFilter(&flaws, d.Filter)
	plainText(&flaws, "/tenant", d.Tenant, 255)
	plainText(&flaws, "/description", d.Description, 1000)
	checkHeaders(&flaws, d.Headers)
	checkMetadata(&flaws, d.Metadata)
	for i := range flaws {
		flaws[i].Pointer = below + flaws[i].Pointer
	}
	return flaws
}

// NamedTarget is a target to declare.
type NamedTarget struct {
	Name string
	TargetDeclaration
}

// PutTarget is what declaring a target came to.
type PutTarget struct {
	Target  Target
	Created bool
	// Secret is the signing secret where this call made it; it is shown once.
	Secret event.Secret
}

// DeclareTargets writes targets of a fan-out receiver, all or none: idempotent, each
// complete. They must have passed CheckTarget, and no name may come twice. ifVersion is
// as for [Registry.Declare], and means the only one.
func (r *Registry) DeclareTargets(ctx context.Context, receiver string, targets []NamedTarget, ifVersion int) (puts []PutTarget, err error) {
	err = r.write(ctx, func(tx pgx.Tx, revision int64) error {
		of, err := find(ctx, tx, receiver)
		if err != nil {
			return err
		}
		declared, _ := of.Declared()
		if !declared.FanOut {
			return ErrNoFanOut
		}
		known, err := knownTargets(ctx, tx, of.ID, targets)
		if err != nil {
			return err
		}
		old, found := known[targets[0].Name]
		if notAt(ifVersion, found, old.Version) {
			return ErrChanged
		}
		puts, err = r.putTargets(ctx, tx, &of, declared.Ways(), targets, known, revision)
		return err
	})
	if errors.Is(err, errUnchanged) {
		err = nil
	}
	return puts, err
}

// AmendTarget is [Registry.Amend] for a target.
func (r *Registry) AmendTarget(ctx context.Context, receiver, name string, ifVersion int, amend func(TargetDeclaration) (TargetDeclaration, error)) (put PutTarget, err error) {
	err = r.write(ctx, func(tx pgx.Tx, revision int64) error {
		of, err := find(ctx, tx, receiver)
		if err != nil {
			return err
		}
		old, err := r.findTarget(ctx, tx, receiver, name)
		if err != nil {
			return err
		}
		if notAt(ifVersion, true, old.Version) {
			return ErrChanged
		}
		d, flaw := old.Declared()
		if flaw != "" {
			return ErrUnreadable
		}
		if d, err = amend(d); err != nil {
			return err
		}
		declared, _ := of.Declared()
		puts, err := r.putTargets(ctx, tx, &of, declared.Ways(), []NamedTarget{{name, d}}, map[string]Target{name: old}, revision)
		if len(puts) > 0 {
			put = puts[0]
		}
		return err
	})
	if errors.Is(err, errUnchanged) {
		err = nil
	}
	return put, err
}

func knownTargets(ctx context.Context, tx pgx.Tx, receiver int32, targets []NamedTarget) (map[string]Target, error) {
	names := make([]string, len(targets))
	for i, t := range targets {
		names[i] = t.Name
	}
	rows, err := tx.Query(ctx, sqlKnownTargets, pg.Args{"receiver": receiver, "names": names})
	if err != nil {
		return nil, fmt.Errorf("look targets up: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByName[Target])
	if err != nil {
		return nil, fmt.Errorf("look targets up: %w", err)
	}
	known := make(map[string]Target, len(list))
	for _, t := range list {
		known[t.Name] = t
	}
	return known, nil
}

// putTargets writes those that are new or changed.
func (r *Registry) putTargets(ctx context.Context, tx pgx.Tx, of *Receiver, ways []event.Signature, targets []NamedTarget, known map[string]Target, revision int64) ([]PutTarget, error) {
	var changed []NamedTarget
	var fresh []string
	given := map[string]event.Secret{}
	for _, t := range targets {
		old, ok := known[t.Name]
		if !ok {
			fresh = append(fresh, t.Name)
			secret := newSecret()
			if t.Secret != nil {
				var err error
				if secret, err = event.ParseSecret(*t.Secret); err != nil {
					return nil, event.Flaws{{Pointer: "/secret", Message: err.Error()}}
				}
			}
			given[t.Name] = secret
		} else if err := r.sameSecret(ctx, tx, old.ID, t.Secret); err != nil {
			return nil, err
		}
		if !ok || old.URL != t.URL || !sameTarget(&old, &t.TargetDeclaration) {
			changed = append(changed, t)
		}
	}
	if len(changed) == 0 {
		return putsOf(targets, known, nil, nil), errUnchanged
	}
	ids, err := writeTargets(ctx, tx, of.ID, changed, revision)
	if err != nil {
		return nil, err
	}
	if err := r.firstSecrets(ctx, tx, ids, fresh, given, ways); err != nil {
		return nil, err
	}
	now, err := knownTargets(ctx, tx, of.ID, targets)
	if err != nil {
		return nil, err
	}
	puts := putsOf(targets, now, fresh, given)
	if of.Key == "" {
		return puts, nil // a receiver's own address, of which the receiver's change tells
	}
	return puts, r.tell(ctx, tx, told(of.Key, puts, known, changed)...)
}

func putsOf(targets []NamedTarget, now map[string]Target, fresh []string, given map[string]event.Secret) []PutTarget {
	created := map[string]bool{}
	for _, name := range fresh {
		created[name] = true
	}
	puts := make([]PutTarget, len(targets))
	for i, t := range targets {
		puts[i] = PutTarget{Target: now[t.Name], Created: created[t.Name], Secret: given[t.Name]}
	}
	return puts
}

func writeTargets(ctx context.Context, tx pgx.Tx, receiver int32, targets []NamedTarget, revision int64) (map[string]event.TargetID, error) {
	names, urls, declarations := make([]string, len(targets)), make([]string, len(targets)), make([]string, len(targets))
	for i, t := range targets {
		stored, err := storedTarget(t.TargetDeclaration)
		if err != nil {
			return nil, err
		}
		names[i], urls[i], declarations[i] = t.Name, t.URL, stored
	}
	args := pg.Args{"receiver": receiver, "names": names, "urls": urls, "declarations": declarations, "revision": revision}
	rows, err := tx.Query(ctx, sqlPutTargets, args)
	if err != nil {
		return nil, fmt.Errorf("put targets: %w", err)
	}
	ids := make(map[string]event.TargetID, len(targets))
	var name string
	var id int32
	if _, err := pgx.ForEachRow(rows, []any{&name, &id}, func() error { ids[name] = event.TargetID(id); return nil }); err != nil {
		return nil, fmt.Errorf("put targets: %w", err)
	}
	return ids, nil
}

// firstSecrets gives new targets their secrets, and key pairs where they sign so. What a
// deleted target of the same name had is forgotten.
func (r *Registry) firstSecrets(ctx context.Context, tx pgx.Tx, ids map[string]event.TargetID, fresh []string, given map[string]event.Secret, ways []event.Signature) error {
	if len(fresh) == 0 {
		return nil
	}
	targets, secrets, keys := make([]int32, len(fresh)), make([][]byte, len(fresh)), make([][]byte, len(fresh))
	for i, name := range fresh {
		id := ids[name]
		targets[i] = int32(id)
		secrets[i], keys[i] = r.o.Sealer.Seal(id, given[name]), r.o.Sealer.Seal(id, newSecret())
	}
	if _, err := tx.Exec(ctx, sqlDropSecrets, pg.Args{"targets": targets}); err != nil {
		return fmt.Errorf("forget old secrets: %w", err)
	}
	if _, err := tx.Exec(ctx, sqlAddSecrets, pg.Args{"targets": targets, "kind": event.SignV1, "sealed": secrets}); err != nil {
		return fmt.Errorf("add secrets: %w", err)
	}
	if slices.Contains(ways, event.SignV1a) {
		if _, err := tx.Exec(ctx, sqlAddSecrets, pg.Args{"targets": targets, "kind": event.SignV1a, "sealed": keys}); err != nil {
			return fmt.Errorf("add signing keys: %w", err)
		}
	}
	return nil
}

func storedTarget(d TargetDeclaration) (string, error) {
	d.URL, d.Secret = "", nil
	if d.Events != nil {
		d.Events = event.NormalizePatterns(d.Events)
	}
	stored, err := json.Marshal(d)
	if err != nil {
		return "", fmt.Errorf("encode the declaration of a target: %w", err)
	}
	return string(stored), nil
}

func sameTarget(old *Target, d *TargetDeclaration) bool {
	was, flaw := old.Declared()
	before, err1 := storedTarget(was)
	now, err2 := storedTarget(*d)
	return flaw == "" && err1 == nil && err2 == nil && before == now
}

// FindTarget is one target, or [ErrNoTarget], or [ErrNotFound] where there is no such
// receiver.
func (r *Registry) FindTarget(ctx context.Context, receiver, name string) (Target, error) {
	return r.findTarget(ctx, r.pool, receiver, name)
}

func (r *Registry) findTarget(ctx context.Context, q querier, receiver, name string) (Target, error) {
	rows, err := q.Query(ctx, sqlFindTarget, pg.Args{"receiver": receiver, "name": name})
	if err != nil {
		return Target{}, fmt.Errorf("find target %s: %w", name, err)
	}
	found, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[Target])
	if errors.Is(err, pgx.ErrNoRows) || err == nil && found.Name == "" {
		if _, err := find(ctx, q, receiver); err != nil {
			return Target{}, err
		}
		return Target{}, ErrNoTarget
	}
	if err != nil {
		return Target{}, fmt.Errorf("find target %s: %w", name, err)
	}
	return found, nil
}

// Targets are up to limit targets of a receiver whose names come after the given one;
// unless tenant is "", those of that tenant alone.
func (r *Registry) Targets(ctx context.Context, receiver, tenant, after string, limit int) ([]Target, error) {
	if _, err := r.Find(ctx, receiver); err != nil {
		return nil, err
	}
	rows, err := r.pool.Query(ctx, sqlListTargets, pg.Args{"receiver": receiver, "tenant": pg.OrNull(tenant), "after": after, "limit": limit})
	if err != nil {
		return nil, fmt.Errorf("list targets: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByName[Target])
	if err != nil {
		return nil, fmt.Errorf("list targets: %w", err)
	}
	return list, nil
}

// TenantsOf says of each of these names that a receiver has a target of, whose it is: a
// tenant, or "" for the whole service's.
func (r *Registry) TenantsOf(ctx context.Context, receiver string, names []string) (map[string]string, error) {
	rows, err := r.pool.Query(ctx, sqlTargetTenants, pg.Args{"receiver": receiver, "names": names})
	if err != nil {
		return nil, fmt.Errorf("look for whose targets are: %w", err)
	}
	tenants := make(map[string]string, len(names))
	var name, tenant string
	if _, err := pgx.ForEachRow(rows, []any{&name, &tenant}, func() error { tenants[name] = tenant; return nil }); err != nil {
		return nil, fmt.Errorf("look for whose targets are: %w", err)
	}
	return tenants, nil
}

// RemoveTarget deletes a target, as [Registry.Remove] does a receiver.
func (r *Registry) RemoveTarget(ctx context.Context, receiver, name string, ifVersion int, agree func(ctx context.Context, tx pgx.Tx, targets []event.TargetID) error) (gone []event.TargetID, err error) {
	return gone, r.writeFenced(ctx, func(tx pgx.Tx, revision int64) error {
		old, err := r.findTarget(ctx, tx, receiver, name)
		if err != nil {
			return err
		}
		var id int32
		err = tx.QueryRow(ctx, sqlRemoveTarget, pg.Args{"receiver": receiver, "name": name, "version": ifVersion, "revision": revision}).Scan(&id)
		if errors.Is(err, pgx.ErrNoRows) {
			return ErrChanged
		}
		if err != nil {
			return fmt.Errorf("remove target %s: %w", name, err)
		}
		gone = []event.TargetID{event.TargetID(id)}
		if err := agree(ctx, tx, gone); err != nil {
			return err
		}
		return r.tell(ctx, tx, targetChange("delete-target", receiver, &old, nil))
	})
}

// PauseTarget stops new attempts at a target, or lets them go on. Resuming also switches
// a disabled one on again. What it is owed stays owed.
func (r *Registry) PauseTarget(ctx context.Context, receiver, name string, paused bool, alongside func(ctx context.Context, tx pgx.Tx, id event.TargetID) error) (Target, error) {
	var now Target
	err := r.write(ctx, func(tx pgx.Tx, revision int64) error {
		old, err := r.findTarget(ctx, tx, receiver, name)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, sqlPauseTarget, pg.Args{"receiver": receiver, "name": name, "paused": paused, "revision": revision}); err != nil {
			return fmt.Errorf("pause target %s: %w", name, err)
		}
		if err := alongside(ctx, tx, old.ID); err != nil {
			return err
		}
		if now, err = r.findTarget(ctx, tx, receiver, name); err != nil {
			return err
		}
		return r.tell(ctx, tx, targetChange(pauseAction("target", paused), receiver, &old, &now))
	})
	return now, err
}

// Disable switches a target off, and reports whether this call did: whoever else found
// that it is to be is told no.
func (r *Registry) Disable(ctx context.Context, id event.TargetID) (done bool, err error) {
	err = r.write(ctx, func(tx pgx.Tx, revision int64) error {
		var receiver, name string
		err := tx.QueryRow(ctx, sqlDisableTarget, pg.Args{"id": int32(id), "revision": revision}).Scan(&receiver, &name)
		if errors.Is(err, pgx.ErrNoRows) {
			return errUnchanged
		}
		if err != nil {
			return fmt.Errorf("disable a target: %w", err)
		}
		done = true
		return r.tell(ctx, tx, Change{Action: "disable-target", Object: "receivers/" + receiver + "/targets/" + name, After: map[string]any{"disabled": true}})
	})
	if errors.Is(err, errUnchanged) {
		err = nil
	}
	return done, err
}
