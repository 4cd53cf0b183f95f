package api

import (
	"html/template"
	"net/http"

	"github.com/go-chi/chi/v5"
)

// kind is what all problems of one code have in common.
type kind struct {
	status int
	title  string
	about  string
}

// kinds is every code there is. A code is never renamed.
var kinds = map[string]kind{
	"malformed-json":          {400, "The body is no JSON", "The request body could not be read as one JSON value. Nothing was changed."},
	"bad-request":             {400, "The request cannot be read", "The request does not follow HTTP or this API. Nothing was changed."},
	"invalid-parameter":       {422, "A parameter breaks a rule", "A path, query or header parameter is unknown, missing or has a bad value."},
	"idempotency-key-missing": {400, "The Idempotency-Key is missing", "Every fire needs an Idempotency-Key header: 1 to 255 visible ASCII characters, chosen by you, the same for every retry of the same event. A CloudEvent needs none: its source and id are its key."},
	"idempotency-key-invalid": {400, "The Idempotency-Key is invalid", "The key must be one header line of 1 to 255 visible ASCII characters, bare or as a quoted string."},
	"idempotency-key-reused":  {422, "The Idempotency-Key was used for another event", "One key names one event for as long as it is kept. Bodies are compared as JSON values, so the order of members does not matter."},
	"vetoed":                  {409, "A receiver vetoed the event", "An inline receiver is asked before an event is stored, and any answer but 2xx, or none in time, is a veto; so is whatever an inline function raises. Nothing was stored and the key is not spent: send the same request again once the reason is gone."},
	"idempotency-key-in-use":  {409, "The Idempotency-Key is in use", "A request with the same key has not finished. Wait as Retry-After says and send the same request again."},
	"invalid-cursor":          {400, "The cursor is invalid", "A cursor is only good for the list, with the same filters, that gave it."},
	"unauthorized":            {401, "An API key is needed", "The request carries no API key, or one that is not known here."},
	"forbidden":               {403, "Not allowed", "The API key is known, but lacks the scope for this call; or a browser made the call for a page of another origin; or the API asks for no keys and was called by a name that can be any site's."},
	"unknown-event-type":      {404, "The event type is not declared", "This service takes events of declared types alone. Declare the type, or correct its name. Nothing was stored."},
	"not-found":               {404, "Not found", "There is nothing here, or nothing that this API key may know of."},
	"method-not-allowed":      {405, "The method is not allowed here", "The Allow header lists the methods of this address."},
	"request-timeout":         {408, "The request took too long to arrive", "The body must arrive within a few seconds."},
	"transaction-decided":     {409, "The transaction was decided otherwise", "A commit after a rollback, or a rollback after a commit. What was decided first stands; find out which of your two sides is wrong."},
	"claim-lost":              {409, "The claim is lost", "The delivery is not held by this worker under this claim: its lease ended and another has it, or it was settled, or cancelled. Nothing was recorded. Claim again."},
	"conflict":                {409, "The request conflicts with how things stand", "What was asked for cannot be done in the present state. The detail says why and what would do."},
	"precondition-failed":     {412, "The resource was changed meanwhile", "If-Match names a version that is not in force. Read the resource again and decide anew."},
	"payload-too-large":       {413, "The body is too large", "The data of an event may have 262144 bytes (256 KiB) as posted."},
	"unsupported-media-type":  {415, "The content type is not supported", "Send bodies as application/json, without Content-Encoding; CloudEvents as application/cloudevents+json or application/cloudevents-batch+json, or in binary mode with data that is JSON."},
	"validation-failed":       {422, "The request breaks a rule", "The body is JSON but breaks a rule of this API. Each entry of errors points at a place and says what would do."},
	"quota-exceeded":          {429, "Too many", "The API key makes more calls than its rate allows, or more is owed for the tenant's events than its quota allows. Wait as Retry-After says and send the same request again, with the same Idempotency-Key."},
	"internal-error":          {500, "The service failed", "Something went wrong inside. The log tells more under the request_id."},
	"service-unavailable":     {503, "The service is unavailable just now", "The database cannot be reached or does not keep up. Ask again as Retry-After says; with the same Idempotency-Key nothing happens twice."},
}

var kindPage = template.Must(template.New("kind").Parse(`<!doctype html><html lang="en"><meta charset="utf-8"><title>{{.Title}}</title>
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:40em;margin:3em auto;padding:0 1em;color-scheme:light dark}code{font-size:.95em}</style>
<h1>{{.Title}}</h1><p><code>{{.Code}}</code>, HTTP status {{.Status}}</p><p>{{.About}}</p></html>
`))

// kindHandler serves the page that a problem's type names.
func kindHandler(w http.ResponseWriter, r *http.Request) {
	code := chi.URLParam(r, "code")
	k, ok := kinds[code]
	if !ok {
		notFound("there is no problem of this code").write(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	kindPage.Execute(w, struct {
		Title, Code, About string
		Status             int
	}{k.title, code, k.about, k.status})
}
