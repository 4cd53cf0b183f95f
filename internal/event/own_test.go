package event_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/eventsvc/eventsvc/internal/event"
)

func TestATenantsNamesAreItsOwn(t *testing.T) {
	tenants := rapid.SampledFrom([]string{"", "north", "north/a", "a", "/", "nor", "n\u00f6rd 7"})
	names := rapid.SampledFrom([]string{"hooks", "a", "north", "x.y"})
	rapid.Check(t, func(t *rapid.T) {
		a, b, name, other := tenants.Draw(t, "a"), tenants.Draw(t, "b"), names.Draw(t, "name"), names.Draw(t, "other")
		own := event.Own(a, name)
		if got := event.Bare(a, own); got != name {
			t.Errorf("%q of %q comes back as %q", name, a, got)
		}
		if event.Owner(own) != a {
			t.Errorf("the owner of %q is %q, not %q", own, event.Owner(own), a)
		}
		if a != b && own == event.Own(b, other) {
			t.Errorf("%q and %q share %q", a, b, own)
		}
		if a != b && event.Bare(b, own) != own {
			t.Errorf("%q is told as %q to %q", own, event.Bare(b, own), b)
		}
	})
}
