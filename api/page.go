package api

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"

	"github.com/eventsvc/eventsvc/internal/event"
)

// PageInput is how every list is read: a bounded page, and a cursor to the next.
type PageInput struct {
	Request
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50" doc:"Entries a page."`
	Cursor string `query:"cursor" doc:"next_cursor of the page before."`
}

// page is one page of a list.
type page[T any] struct {
	Link string `header:"Link" doc:"rel=next, where there is a next page."`
	Body struct {
		_          struct{} `additionalProperties:"true"`
		Data       []T      `json:"data"`
		NextCursor *string  `json:"next_cursor" doc:"null on the last page."`
	}
}

// cursor is where a page ended, and of which list with which filters.
type cursor struct {
	Version int    `json:"v"`
	After   string `json:"a"`
	Of      string `json:"o"`
}

const cursorVersion = 1

// of names the list and its filters, and whose it is, so that a cursor opens no other.
func (in *PageInput) of(list string) string {
	filters := url.Values{}
	for name, values := range in.query {
		if name != "cursor" && name != "limit" {
			filters[name] = values
		}
	}
	sum := sha256.Sum256([]byte(fmt.Sprintf("%d %s %s?%s", len(in.tenant), in.tenant, list, filters.Encode())))
	return base64.RawURLEncoding.EncodeToString(sum[:9])
}

// after is what the cursor says the page before ended with, or "".
func (in *PageInput) after(list string) (string, error) {
	if in.Cursor == "" {
		return "", nil
	}
	var c cursor
	raw, err := base64.RawURLEncoding.DecodeString(in.Cursor)
	if err != nil || json.Unmarshal(raw, &c) != nil || c.Version != cursorVersion || c.Of != in.of(list) {
		return "", problem("invalid-cursor", "this cursor is not one of this list with these filters; start again without cursor")
	}
	return c.After, nil
}

// checkType refuses a filter by a type that no event can have.
func (in *PageInput) checkType(t string) error {
	if !in.query.Has("type") {
		return nil
	}
	if err := event.CheckType(t); err != nil {
		return problem("invalid-parameter", "query type: "+err.Error())
	}
	return nil
}

// start is after for lists that are ordered by id.
func (in *PageInput) start(list string, p event.Prefix) (event.ID, error) {
	after, err := in.after(list)
	if err != nil || after == "" {
		return event.ID{}, err
	}
	id, err := event.ParseID(p, after)
	if err != nil {
		return event.ID{}, problem("invalid-cursor", "this cursor is not one of this list; start again without cursor")
	}
	return id, nil
}

// turnPage shows up to limit entries; one more among them says that there is a next
// page.
func turnPage[E, T any](in *PageInput, list string, entries []E, show func(*E) T, key func(*E) string) *page[T] {
	p := &page[T]{}
	p.Body.Data = []T{}
	if len(entries) > in.Limit {
		entries = entries[:in.Limit]
		encoded, err := json.Marshal(cursor{cursorVersion, key(&entries[len(entries)-1]), in.of(list)})
		if err != nil {
			panic(err) // strings always encode
		}
		next := base64.RawURLEncoding.EncodeToString(encoded)
		p.Body.NextCursor = &next
		query := url.Values{}
		for name, values := range in.query {
			query[name] = values
		}
		query.Set("cursor", next)
		p.Link = fmt.Sprintf(`</v1/%s?%s>; rel="next"`, list, query.Encode())
	}
	for i := range entries {
		p.Body.Data = append(p.Body.Data, show(&entries[i]))
	}
	return p
}

func typeOf[T any]() reflect.Type { return reflect.TypeFor[T]() }
