package registry

import (
	"bytes"
	"testing"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
)

func TestASecretSignsUntilTheMomentItExpires(t *testing.T) {
	end := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	newest, older := event.Secret("new"), event.Secret("old")
	e := &entry{
		target:  &event.Target{ID: 1, URL: "https://shop.example.com/", Secrets: []event.Secret{newest, older}},
		expires: []time.Time{{}, end},
	}
	before, at := e.withoutExpired(end.Add(-time.Nanosecond)), e.withoutExpired(end)
	if len(before.Secrets) != 2 || !bytes.Equal(before.Secrets[1], older) {
		t.Errorf("just before: %d", len(before.Secrets))
	}
	if len(at.Secrets) != 1 || !bytes.Equal(at.Secrets[0], newest) || at.URL != e.target.URL {
		t.Errorf("at the end: %d", len(at.Secrets))
	}
	if len(e.target.Secrets) != 2 {
		t.Error("the remembered target was changed")
	}
}
