package api

import (
	"context"
	"errors"
	"fmt"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/fire"
	"github.com/eventsvc/eventsvc/internal/registry"
)

// An API key that is bound to a tenant sees and touches the tenant's own: its events and
// their deliveries, receivers and targets that are declared for it, and those that it
// declares itself, which are under the tenant's names. Of anything else it is told what it
// would be told if that were not there.

// tenantOf is the tenant that the caller is bound to, or "".
func tenantOf(ctx context.Context) string { return caller(ctx).Tenant }

// bindDraft has an event be its caller's tenant's.
func bindDraft(ctx context.Context, draft *fire.Draft) (err error) {
	draft.Tenant, err = bindTenant(ctx, "/tenant", draft.Tenant)
	draft.Bound = tenantOf(ctx) != ""
	return err
}

// bindTenant is the tenant that a caller means: the one it is bound to, which it need not
// name.
func bindTenant(ctx context.Context, pointer, asked string) (string, error) {
	bound := tenantOf(ctx)
	if bound == "" || asked == bound {
		return asked, nil
	}
	if asked != "" {
		return "", event.Flaws{{Pointer: pointer, Message: "must be the tenant that the API key is bound to, which is " + bound + ", or left out"}}
	}
	return bound, nil
}

// receiverKey is the key in the service of a receiver as the caller calls it. Of what the
// caller may not know it is a key that is not there.
func (s *server) receiverKey(ctx context.Context, key string) (string, error) {
	return s.resolveReceiver(ctx, key, func(*registry.Declaration) bool { return false })
}

// fanOutKey is receiverKey for a receiver whose targets are meant: a tenant has targets of
// its own at receivers that are the whole service's.
func (s *server) fanOutKey(ctx context.Context, key string) (string, error) {
	return s.resolveReceiver(ctx, key, func(d *registry.Declaration) bool { return d.FanOut && d.Tenant == "" })
}

func (s *server) resolveReceiver(ctx context.Context, key string, shared func(*registry.Declaration) bool) (string, error) {
	tenant := tenantOf(ctx)
	if tenant == "" {
		return key, nil
	}
	own := event.Own(tenant, key)
	for _, name := range []string{own, key} {
		r, err := s.Registry.Find(ctx, name)
		if errors.Is(err, registry.ErrNotFound) {
			continue
		}
		if err != nil {
			return "", err
		}
		if d, _ := r.Declared(); d.Tenant == tenant || shared(&d) {
			return name, nil
		}
	}
	return own, nil
}

// target is the receiver's key and the target's name in the service.
func (s *server) target(ctx context.Context, in *TargetName) (receiver, target string, err error) {
	if receiver, err = s.fanOutKey(ctx, in.Key); err != nil {
		return "", "", err
	}
	names, err := s.targetNames(ctx, receiver, []string{in.Target})
	if err != nil {
		return "", "", err
	}
	return receiver, names[0], nil
}

// targetNames are the names in the service of targets of a receiver, as the caller calls
// them.
func (s *server) targetNames(ctx context.Context, receiver string, called []string) ([]string, error) {
	tenant := tenantOf(ctx)
	if tenant == "" {
		return called, nil
	}
	known, err := s.Registry.TenantsOf(ctx, receiver, ownNames(ctx, called))
	if err != nil {
		return nil, err
	}
	names := make([]string, len(called))
	for i, name := range called {
		names[i] = event.Own(tenant, name)
		if _, is := known[names[i]]; !is && known[name] == tenant {
			names[i] = name
		}
	}
	return names, nil
}

// called is what the caller calls what has that name in the service.
func called(ctx context.Context, name string) string { return event.Bare(tenantOf(ctx), name) }

// ownNames are names that a filter of the caller's may stand for: what it is shown under
// that name.
func ownNames(ctx context.Context, names []string) []string {
	tenant := tenantOf(ctx)
	if tenant == "" {
		return names
	}
	var both []string
	for _, name := range names {
		both = append(both, name, event.Own(tenant, name))
	}
	return both
}

// bindReceiver holds what a tenant's key declares to what is the tenant's to say: a lane
// and what pauses in it are others' as well.
func (s *server) bindReceiver(ctx context.Context, key string, d *registry.Declaration) error {
	if tenantOf(ctx) == "" {
		return nil
	}
	old, err := s.Registry.Find(ctx, key)
	if err != nil && !errors.Is(err, registry.ErrNotFound) {
		return err
	}
	was, _ := old.Declared()
	return bindDeclaration(ctx, was.Lane, d)
}

// bindDeclaration is bindReceiver for one that has that lane, or "".
func bindDeclaration(ctx context.Context, kept string, d *registry.Declaration) (err error) {
	if tenantOf(ctx) == "" {
		return nil
	}
	if d.Tenant, err = bindTenant(ctx, "/tenant", d.Tenant); err != nil {
		return err
	}
	var flaws event.Flaws
	if d.Lane != "" && d.Lane != kept {
		flaws.Add("/lane", "is not for an API key that is bound to a tenant to choose: leave it out")
	}
	d.Lane = kept
	if d.Function != "" {
		flaws.Add("/function", "is not for an API key that is bound to a tenant to declare: it runs in the service's database")
	}
	if d.Site == registry.SiteTask {
		flaws.Add("/site", "must be relay for an API key that is bound to a tenant: workers are the whole service's")
		return flaws
	}
	if d.PauseScope == event.PauseLane {
		flaws.Add("/pause_scope", fmt.Sprintf("must be %s: the lane is others' too", event.PauseTarget))
	}
	d.PauseScope = event.PauseTarget
	return flaws.Err()
}
