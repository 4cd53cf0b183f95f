package registry

import (
	"fmt"
	"html"
	"strings"

	"github.com/eventsvc/eventsvc/internal/event"
)

// Markdown is the catalogue as a page. What people wrote is text in it, whatever it
// looks like, and the page ends in one line break.
func (c *Catalogue) Markdown() string {
	var b strings.Builder
	b.WriteString("# Catalogue\n\n## Event types\n")
	if len(c.Types) == 0 {
		b.WriteString("\nNone is declared, and no receiver names one.\n")
	}
	for i := range c.Types {
		c.Types[i].write(&b)
	}
	b.WriteString("\n## Wildcards\n\n")
	c.writeWildcards(&b)
	b.WriteString("\n## Receivers\n\n")
	c.writeReceivers(&b)
	return b.String()
}

func (t *CataloguedType) write(b *strings.Builder) {
	fmt.Fprintf(b, "\n### %s\n", text(t.Type))
	if t.Description != "" {
		fmt.Fprintf(b, "\n%s\n", text(t.Description))
	}
	listens := "nothing listens to it by name"
	if len(t.Listeners) > 0 {
		listens = text(strings.Join(t.Listeners, ", "))
	}
	fmt.Fprintf(b, "\n- Listeners: %s\n", listens)
	if t.Retention != "" {
		fmt.Fprintf(b, "- Kept: %s\n", kept(t.Retention))
	}
	if !t.Declared {
		b.WriteString("- Not declared\n")
	}
	fenced(b, "Schema", t.Schema)
	fenced(b, "Example", t.Example)
}

func kept(retention string) string {
	switch event.Settled(retention) {
	case event.WhenSucceeded:
		return "until every delivery has succeeded"
	case event.WhenSettled:
		return "until every delivery has ended"
	}
	return text(retention)
}

// fenced writes JSON in a fence that nothing in it can close.
func fenced(b *strings.Builder, title string, json []byte) {
	if json == nil {
		return
	}
	fence := "```"
	for strings.Contains(string(json), fence) {
		fence += "`"
	}
	fmt.Fprintf(b, "\n%s:\n\n%sjson\n%s\n%s\n", title, fence, strings.TrimSpace(string(json)), fence)
}

func (c *Catalogue) writeWildcards(b *strings.Builder) {
	if len(c.Wildcards) == 0 {
		b.WriteString("None.\n")
		return
	}
	b.WriteString("| Pattern | Receiver |\n|---|---|\n")
	for _, w := range c.Wildcards {
		tableRow(b, string(w.Pattern), w.Receiver)
	}
}

func (c *Catalogue) writeReceivers(b *strings.Builder) {
	if len(c.Receivers) == 0 {
		b.WriteString("None.\n")
		return
	}
	b.WriteString("| Receiver | Events | Mode | Site | Eager | Lane | Tenant | Filter | Format | Attempts | Curve | Lasts at most | On average | Timeout | Lease | Gives up after | Due | Rate limit | About |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	for i := range c.Receivers {
		r := &c.Receivers[i]
		wants := make([]string, len(r.Events))
		for j, p := range r.Events {
			wants[j] = string(p)
		}
		cells := []string{r.Receiver, strings.Join(wants, ", "), string(r.Mode), r.Site, yes(r.Eager), r.Lane, r.Tenant, r.Filter, string(r.Format)}
		tableRow(b, append(append(cells, r.terms()...), r.Description)...)
	}
}

// terms are those of its deliveries; of a receiver that has none, its timeout alone.
func (r *CataloguedReceiver) terms() []string {
	if r.Mode != event.Durable {
		return []string{"", "", "", "", r.Timeout.String(), "", "", "", ""}
	}
	return []string{fmt.Sprint(r.MaxAttempts), fmt.Sprintf("%s to %s", r.BackoffBase, r.BackoffCap), r.Longest.String(), r.Mean.String(), r.Timeout.String(), r.Lease.String(),
		orBlank(r.GiveUpAfter), orBlank(r.Due), orBlank(r.RateLimit)}
}

func yes(so bool) string {
	if so {
		return "yes"
	}
	return ""
}

func orBlank[T fmt.Stringer](declared *T) string {
	if declared == nil {
		return ""
	}
	return (*declared).String()
}

func tableRow(b *strings.Builder, cells ...string) {
	for _, cell := range cells {
		fmt.Fprintf(b, "| %s ", text(cell))
	}
	b.WriteString("|\n")
}

// markup is what Markdown would read as more than text.
var markup = strings.NewReplacer(`\`, `\\`, "|", `\|`, "*", `\*`, "_", `\_`, "`", "\\`", "[", `\[`, "]", `\]`, "#", `\#`, "\n", " ", "\r", " ", "~", `\~`, "!", `\!`)

// text makes anything plain text of a page: neither HTML nor Markdown, nor a new cell
// of a table, nor text that runs the other way.
func text(s string) string {
	s = strings.Map(func(r rune) rune {
		if r >= 0x202A && r <= 0x202E || r >= 0x2066 && r <= 0x2069 || r == 0x200E || r == 0x200F {
			return -1
		}
		return r
	}, s)
	return markup.Replace(html.EscapeString(s))
}
