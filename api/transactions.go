package api

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"go.opentelemetry.io/otel/trace"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/fire"
)

// maxTogetherBytes bounds the body of a transaction.
const maxTogetherBytes = 4 << 20

// together is the body of a transaction.
type together struct {
	Events  []firing  `json:"events" minItems:"1" maxItems:"100" doc:"Fired in this order: all of them or none."`
	Prepare bool      `json:"prepare,omitempty" default:"false" doc:"Hold them until /commit or /rollback says what becomes of them. Needs check."`
	Check   *checking `json:"check,omitempty" doc:"Where you are asked what became of your own change, should neither come."`
}

// checking is where a caller is asked.
type checking struct {
	URL    string `json:"url" maxLength:"2000" doc:"http or https, under the same egress policy as receivers. 200 commits, 409 rolls back; anything else, such as 425, is asked again." example:"https://shop.example.com/eventsvc/check"`
	Secret string `json:"secret" doc:"That the question is signed with, as webhooks are: whsec_ and base64 of 24-64 bytes. Write only."`
}

// transactionView is a transaction as the API shows it.
type transactionView struct {
	_         struct{}               `additionalProperties:"true"`
	ID        string                 `json:"id" example:"tx_01jxkg2c8zf3v9e4m6r7t8w9yc"`
	State     event.TransactionState `json:"state" enum:"prepared,committed,rolled_back,in_doubt"`
	Prepared  bool                   `json:"prepared" doc:"Whether it was held, before it was decided."`
	CreatedAt time.Time              `json:"created_at"`
	DecidedAt *time.Time             `json:"decided_at,omitempty"`
	Held      []string               `json:"held,omitempty" doc:"The types of the events that it holds."`
	Check     *checkView             `json:"check,omitempty"`
}

type checkView struct {
	_      struct{}   `additionalProperties:"true"`
	URL    string     `json:"url"`
	Checks int        `json:"checks" doc:"How often it was asked."`
	NextAt *time.Time `json:"next_at,omitempty" doc:"When it is asked next, unless it is decided before."`
	Last   string     `json:"last,omitempty" doc:"What the last one came to."`
}

// transactionBody is one transaction with its events.
type transactionBody struct {
	_           struct{}        `additionalProperties:"true"`
	Transaction transactionView `json:"transaction"`
	Events      []receipt       `json:"events" doc:"Once it is committed: each event with what it was owed to, in their order."`
}

type transactionOutput struct {
	Status   int
	Location string `header:"Location"`
	Replayed string `header:"Idempotent-Replayed" doc:"true where the key had been spent on this transaction before, or it had been decided so before."`
	Body     transactionBody
}

// transactionID names a transaction in a path.
type transactionID struct {
	ID string `path:"id" example:"tx_01jxkg2c8zf3v9e4m6r7t8w9yc"`
}

func (s *server) transactions(api huma.API) {
	op := operation(fires, http.MethodPost, "/v1/transactions", "fire-transaction", "Transactions", "Fire events together",
		"1 to 100 events under one Idempotency-Key, in one transaction: all of them or none. With prepare they are validated and held: nothing can be seen or is owed until /commit, and a commit is never refused. If neither /commit nor /rollback comes, the check's url is asked after 10 seconds and then on a curve, 15 times at most; then the transaction is in doubt, and a person decides it.")
	op.DefaultStatus, op.MaxBodyBytes, op.SkipValidateBody = http.StatusCreated, maxTogetherBytes+1, true
	op.Errors = []int{400, 401, 404, 409, 413, 415, 422, 503}
	register(api, op, s.fireTogether)
	documentBody[together](api, op, map[string]*huma.Example{"two": {Value: map[string]any{"events": []any{
		map[string]any{"type": "order.placed", "data": map[string]any{"order": 1042}}, map[string]any{"type": "stock.reserved", "data": map[string]any{"order": 1042}},
	}}}})

	op = operation(reads, http.MethodGet, "/v1/transactions/{id}", "get-transaction", "Transactions", "One transaction with its events", "")
	op.Errors = []int{401, 404, 503}
	register(api, op, s.getTransaction)

	op = operation(reads, http.MethodGet, "/v1/transactions", "list-transactions", "Transactions", "Transactions, newest first", "Those in doubt wait for a person: state=in_doubt.")
	op.Errors = []int{400, 401, 422, 503}
	register(api, op, s.listTransactions)

	for _, verb := range []struct {
		name, summary, says string
		do                  func(*fire.Desk, context.Context, event.ID, string) (fire.Transaction, error)
	}{
		{"commit", "Commit what was prepared", "Makes the events, with what is owed for them, in one transaction. Again it answers the same; after a rollback it is 409. It is also how a person decides one that is in doubt.", (*fire.Desk).Commit},
		{"rollback", "Roll back what was prepared", "Forgets what is held. Again it answers the same; after a commit it is 409.", (*fire.Desk).Rollback},
	} {
		op = operation(fires, http.MethodPost, "/v1/transactions/{id}/"+verb.name, verb.name+"-transaction", "Transactions", verb.summary, verb.says)
		op.Errors = []int{401, 404, 409, 503}
		register(api, op, func(ctx context.Context, in *transactionID) (*transactionOutput, error) {
			return s.decide(ctx, in, verb.do)
		})
	}
}

func (s *server) fireTogether(ctx context.Context, in *fireInput) (*transactionOutput, error) {
	t, err := s.readTogether(ctx, in)
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	x, err := s.Desk.Transact(ctx, t)
	if err != nil {
		return nil, s.explainPart(ctx, err)
	}
	return s.transactionOutput(ctx, &x, http.StatusCreated), nil
}

func (s *server) readTogether(ctx context.Context, in *fireInput) (*fire.Together, error) {
	key, err := idempotencyKey(in.header)
	if err != nil {
		return nil, err
	}
	if err := checkContentType(in.header.Get("Content-Type"), in.header.Get("Content-Encoding")); err != nil {
		return nil, err
	}
	body := slices.Clone(in.RawBody)
	events, rest, err := splitMember(body, "events")
	if err != nil {
		return nil, err
	}
	var b together
	if err := decode(rest, &b); err != nil {
		return nil, err
	}
	t := &fire.Together{
		Producer: fire.Producer(caller(ctx).Producer), Key: key, Body: sha256.Sum256(body), Tenant: tenantOf(ctx), Prepare: b.Prepare,
	}
	var flaws event.Flaws
	t.Check = b.checked(s, &flaws)
	if t.Drafts, err = s.readDrafts(ctx, events, &flaws); err != nil {
		return nil, err
	}
	return t, flaws.Err()
}

// checked is the check of a transaction, with what is wrong about it.
func (b *together) checked(s *server, flaws *event.Flaws) *fire.Check {
	switch {
	case b.Check == nil && !b.Prepare:
		return nil
	case b.Check == nil:
		flaws.Add("/check", "is required with prepare: should neither commit nor rollback come, its url is asked")
		return nil
	case !b.Prepare:
		flaws.Add("/check", "has no meaning without prepare: the events are fired at once")
		return nil
	}
	if err := s.Registry.CheckURL(b.Check.URL); err != nil {
		flaws.Add("/check/url", err.Error())
	}
	secret, err := event.ParseSecret(b.Check.Secret)
	if err != nil {
		flaws.Add("/check/secret", err.Error())
	}
	return &fire.Check{URL: b.Check.URL, Secret: secret}
}

// readDrafts reads the events of a transaction, with all that is wrong about any.
func (s *server) readDrafts(ctx context.Context, events []byte, flaws *event.Flaws) ([]*fire.Draft, error) {
	if len(events) == 0 || string(events) == "null" {
		flaws.Add("/events", "is required: 1 to 100 events")
		return nil, nil
	}
	if events[0] != '[' {
		flaws.Add("/events", "must be an array of events")
		return nil, nil
	}
	elements, err := splitArray(events, len(events), "events")
	if err != nil {
		return nil, err
	}
	if n := len(elements); n == 0 || n > fire.MaxTogether {
		flaws.Add("/events", fmt.Sprintf("holds %d events; 1 to %d are allowed", n, fire.MaxTogether))
		return nil, nil
	}
	parent := traceParent(trace.SpanContextFromContext(ctx))
	drafts := make([]*fire.Draft, len(elements))
	for i, element := range elements {
		draft, err := readTogetherDraft(ctx, element)
		var found event.Flaws
		var p *Problem
		switch {
		case errors.As(err, &found):
		case errors.As(err, &p) && p.Code == "validation-failed":
			for _, e := range p.Errors {
				found.Add(e.Pointer, e.Message)
			}
		case err != nil:
			return nil, s.explainPart(ctx, fire.PartError{Part: i, Err: err})
		}
		for _, f := range found {
			flaws.Add(fmt.Sprintf("/events/%d%s", i, f.Pointer), f.Message)
		}
		if drafts[i] = draft; draft != nil {
			draft.TraceParent = parent
		}
	}
	return drafts, nil
}

func readTogetherDraft(ctx context.Context, element []byte) (*fire.Draft, error) {
	draft, err := readEvent(element)
	if err != nil {
		return nil, err
	}
	if err := bindDraft(ctx, draft); err != nil {
		return nil, err
	}
	return draft, nil
}

// explainPart is explain for what may be wrong with one event of several.
func (s *server) explainPart(ctx context.Context, err error) error {
	var part fire.PartError
	if !errors.As(err, &part) {
		return s.explain(ctx, err)
	}
	p := asProblem(s.explain(ctx, part.Err)).below(fmt.Sprintf("/events/%d", part.Part))
	if len(p.Errors) == 0 {
		p.Detail = fmt.Sprintf("events/%d: %s", part.Part, p.Detail)
	}
	return p
}

func (s *server) getTransaction(ctx context.Context, in *transactionID) (*struct{ Body transactionBody }, error) {
	x, err := s.transaction(ctx, in, (*fire.Desk).FindTransaction)
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	return &struct{ Body transactionBody }{showTransaction(ctx, &x)}, nil
}

func (s *server) decide(ctx context.Context, in *transactionID, do func(*fire.Desk, context.Context, event.ID, string) (fire.Transaction, error)) (*transactionOutput, error) {
	x, err := s.transaction(ctx, in, do)
	if errors.Is(err, fire.ErrDecided) {
		return nil, problem("transaction-decided", fmt.Sprintf("this transaction is %s since %s, and stays so", x.State, x.DecidedAt.UTC().Format(time.RFC3339)))
	}
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	return s.transactionOutput(ctx, &x, http.StatusOK), nil
}

func (s *server) transaction(ctx context.Context, in *transactionID, do func(*fire.Desk, context.Context, event.ID, string) (fire.Transaction, error)) (fire.Transaction, error) {
	id, err := event.ParseID(event.TxPrefix, in.ID)
	if err != nil {
		return fire.Transaction{}, fire.ErrNoTransaction
	}
	return do(s.Desk, ctx, id, tenantOf(ctx))
}

func (s *server) transactionOutput(ctx context.Context, x *fire.Transaction, status int) *transactionOutput {
	out := &transactionOutput{Status: status, Location: "/v1/transactions/" + x.ID.Text(event.TxPrefix), Body: showTransaction(ctx, x)}
	if x.Replayed {
		out.Replayed = "true"
	}
	return out
}

func showTransaction(ctx context.Context, x *fire.Transaction) transactionBody {
	body := transactionBody{Transaction: viewTransaction(x), Events: []receipt{}}
	for _, r := range x.Receipts {
		body.Events = append(body.Events, showReceipt(ctx, r))
	}
	return body
}

func viewTransaction(x *fire.Transaction) transactionView {
	v := transactionView{ID: x.ID.Text(event.TxPrefix), State: x.State, Prepared: x.Prepared, CreatedAt: x.CreatedAt.UTC()}
	if !x.DecidedAt.IsZero() {
		v.DecidedAt = moment(x.DecidedAt)
	}
	for _, d := range x.Held {
		v.Held = append(v.Held, d.Type)
	}
	if x.CheckURL != "" {
		v.Check = &checkView{URL: x.CheckURL, Checks: x.Checks, Last: x.Checked}
		if !x.NextCheck.IsZero() {
			v.Check.NextAt = moment(x.NextCheck)
		}
	}
	return v
}

type transactionFilter struct {
	PageInput
	State     string `query:"state" enum:"prepared,committed,rolled_back,in_doubt"`
	OlderThan string `query:"older_than" doc:"Made longer ago than that." example:"10m"`
}

func (s *server) listTransactions(ctx context.Context, in *transactionFilter) (*page[transactionView], error) {
	below, err := in.start("transactions", event.TxPrefix)
	if err != nil {
		return nil, err
	}
	f := fire.TransactionFilter{State: event.TransactionState(in.State), Tenant: tenantOf(ctx), Below: below, Limit: in.Limit + 1}
	if in.OlderThan != "" {
		older, err := event.ParseDuration(in.OlderThan)
		if err != nil || older <= 0 {
			return nil, problem("invalid-parameter", `query older_than: must be a duration longer than 0s, such as "10m"`)
		}
		f.Older = time.Duration(older)
	}
	list, err := s.Desk.Transactions(ctx, f)
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	return turnPage(&in.PageInput, "transactions", list, viewTransaction, func(x *fire.Transaction) string { return x.ID.Text(event.TxPrefix) }), nil
}
