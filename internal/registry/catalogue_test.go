package registry_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/pgtest"
	"github.com/eventsvc/eventsvc/internal/registry"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != got {
		t.Errorf("%s is not as it was; got:\n%s", name, got)
	}
}

// T97, AUTH-12: whole, sorted, computed, and text only, whatever people wrote.
func TestTheCatalogueIsWrittenDown(t *testing.T) {
	pool := pgtest.New(t)
	r := registry.New(pool, registry.Options{Sealer: sealer(t, key(1)), CheckURL: func(string) error { return nil },
		Defaults: registry.Defaults{MaxAttempts: 20, Curve: event.Curve{Base: 2 * time.Second, Cap: time.Hour}, MaxRetryAfter: 24 * time.Hour}})
	declare(t, r, "shop.zebra", func(d *registry.Declaration) {
		d.Events = []event.Pattern{"order.placed", "order.cancelled"}
		d.Description = "a | b <img src=x onerror=1>& `x` \u202e[y](z) *"
		d.Headers = map[string]string{"x-canary": "canary"}
	})
	declare(t, r, "shop.mailer", func(d *registry.Declaration) {
		d.Events = []event.Pattern{"order.placed", "invoice.*"}
		d.Lane, d.Tenant, d.Format = "mail", "acme", event.FormatRaw
		d.BackoffBase, d.BackoffCap, d.MaxAttempts = duration(120*time.Second), duration(30*time.Minute), ptr(10)
		d.GiveUpAfter, d.CountDeferrals, d.Due = duration(48*time.Hour), ptr(false), duration(time.Hour)
		d.RateLimit = &event.Rate{Count: 300, Per: time.Minute}
	})
	declare(t, r, "audit", func(d *registry.Declaration) { d.Events, d.Eager = []event.Pattern{"*"}, true })
	declareType(t, r, "order.placed", registry.TypeDeclaration{
		Description: "An order was placed. <script>1</script>", Schema: []byte(`{"type":"object","description":"` + "```" + `"}`), Example: []byte(`{ "order": 1042 }`), Retention: "succeeded",
	})
	declareType(t, r, "order.refunded", registry.TypeDeclaration{Retention: "30d"})
	c, err := r.Catalogue(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	page := c.Markdown()
	golden(t, "catalogue.md", page)
	encoded, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "catalogue.json", string(encoded)+"\n")
	for _, canary := range []string{"<img", "<script", "whsec_", "http://", "canary", "\u202e"} {
		if strings.Contains(page, canary) {
			t.Errorf("the page holds %q", canary)
		}
	}
	for _, canary := range []string{"whsec_", "http://", "canary"} {
		if strings.Contains(string(encoded), canary) {
			t.Errorf("the catalogue holds %q", canary)
		}
	}
	if !strings.HasSuffix(page, "|\n") {
		t.Error("the page does not end in one line break")
	}
}

func TestAnEmptyCatalogueSaysSo(t *testing.T) {
	c, err := over(t, pgtest.New(t)).Catalogue(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	encoded, _ := json.Marshal(c)
	if string(encoded) != `{"types":[],"wildcards":[],"receivers":[]}` {
		t.Errorf("got %s", encoded)
	}
	if page := c.Markdown(); strings.Count(page, "None") != 3 {
		t.Errorf("got %s", page)
	}
}
