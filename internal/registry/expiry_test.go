package registry

import (
	"testing"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
)

func TestASecretSignsUntilTheMomentItExpires(t *testing.T) {
	end := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	newest, older := event.Secret("new").Signer(), event.Secret("old").Signer()
	e := &entry{
		target:  &event.Target{ID: 1, URL: "https://shop.example.com/", Signers: []*event.Signer{newest, older}},
		expires: []time.Time{{}, end},
	}
	before, at := e.withoutExpired(end.Add(-time.Nanosecond)), e.withoutExpired(end)
	if len(before.Signers) != 2 || before.Signers[1] != older {
		t.Errorf("just before: %d", len(before.Signers))
	}
	if len(at.Signers) != 1 || at.Signers[0] != newest || at.URL != e.target.URL {
		t.Errorf("at the end: %d", len(at.Signers))
	}
	if len(e.target.Signers) != 2 {
		t.Error("the remembered target was changed")
	}
}
