package app

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/eventsvc/eventsvc/internal/ledger"
	"github.com/eventsvc/eventsvc/internal/pg"
	"github.com/eventsvc/eventsvc/internal/registry"
)

// Finding is something that somebody should look at. Its code is stable: EV-E is an
// error, with which something does not work; EV-W is a warning.
type Finding struct {
	Code string
	Text string
}

// Error reports whether the finding is more than a warning.
func (f Finding) Error() bool { return f.Code < "EV-F" }

// CheckUp looks at the database that the settings lead to, and at what is stored in it,
// with these settings. It changes nothing.
func CheckUp(ctx context.Context, c Config, log *slog.Logger) ([]Finding, error) {
	pool, err := OpenReady(ctx, c)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	status, err := pg.Status(ctx, pool)
	if err != nil {
		return nil, err
	}
	if !status.Current() {
		return []Finding{{"EV-E001", "the schema is not this program's: " + status.Advice()}}, nil
	}
	keys, err := c.sealKeys()
	if err != nil {
		return nil, err
	}
	sealer, err := registry.NewSealer(keys...)
	if err != nil {
		return nil, err
	}
	var found []Finding
	if !sealer.Sealing() {
		found = append(found, Finding{"EV-W001", "signing secrets are stored unsealed: EVENTSVC_SECRET_KEY is not set"})
	}
	r := registry.New(pool, c.registry(sealer, c.policy()))
	declared, err := checkDeclared(ctx, r, c)
	if err != nil {
		return nil, err
	}
	owed, err := checkOwed(ctx, ledger.New(pool))
	return slices.Concat(found, declared, owed), err
}

func checkDeclared(ctx context.Context, r *registry.Registry, c Config) ([]Finding, error) {
	book := r.NewBook(slog.New(slog.DiscardHandler))
	if err := book.Read(ctx); err != nil {
		return nil, err
	}
	var found []Finding
	unusable := book.Unusable()
	for _, key := range slices.Sorted(maps.Keys(unusable)) {
		found = append(found, Finding{"EV-E002", fmt.Sprintf("receiver %s cannot be used, and its deliveries fail: %s", key, unusable[key])})
	}
	list, err := r.List(ctx, "", "", 1_000_000)
	if err != nil {
		return nil, err
	}
	for i := range list {
		d, flaw := list[i].Declared()
		if flaw != "" {
			continue
		}
		if d.Site == registry.SiteTask && !d.Pulled() && c.NATSURL == "" {
			found = append(found, Finding{"EV-W006", fmt.Sprintf("receiver %s is for worker processes, and EVENTSVC_NATS_URL is not set: its deliveries fail", list[i].Key)})
		}
		if err := r.Check(&d); err != nil {
			found = append(found, Finding{"EV-W002", fmt.Sprintf("receiver %s could not be declared so today: %v", list[i].Key, err)})
		}
	}
	if c.StrictTypes {
		catalogue, err := r.Catalogue(ctx)
		if err != nil {
			return nil, err
		}
		for _, t := range catalogue.Types {
			if !t.Declared {
				found = append(found, Finding{"EV-W003", fmt.Sprintf("%v listen to %s, which is not declared: no such event can be fired", t.Listeners, t.Type)})
			}
		}
	}
	return found, nil
}

func checkOwed(ctx context.Context, l *ledger.Ledger) ([]Finding, error) {
	stranded, err := l.OwedToGone(ctx)
	if err != nil {
		return nil, err
	}
	var found []Finding
	for _, s := range stranded {
		found = append(found, Finding{"EV-W004", fmt.Sprintf("%d deliveries are owed to receiver %s, which is gone: a relay of the lane default will orphan them", s.Owed, s.Receiver)})
	}
	s, err := l.Status(ctx)
	if err != nil {
		return nil, err
	}
	for i := range s.Lanes {
		if n := &s.Lanes[i]; n.Unserved() {
			found = append(found, Finding{"EV-W005", fmt.Sprintf("%d deliveries wait in lane %s, which no live relay serves", n.Owed+n.Scheduled, n.Lane)})
		}
	}
	return found, nil
}
