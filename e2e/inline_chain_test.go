package e2e

import "testing"

func TestInlineReceiversAreToldTheChainThatTheProducerNamed(t *testing.T) {
	t.Parallel()
	told := open(t, nil)
	p, db := guarded(t)
	for _, sql := range []string{`CREATE TABLE app.chains (chain text)`,
		`CREATE FUNCTION app.chain(event jsonb, context jsonb) RETURNS void LANGUAGE sql AS $f$ INSERT INTO app.chains VALUES (event ->> 'correlation_id') $f$`} {
		if _, err := db.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	p.declare(t, "chain", `{"events":["c.d"],"function":"app.chain","mode":"inline"}`)
	p.declare(t, "asked", `{"events":["c.d"],"url":"`+told.URL+`","mode":"inline"}`)
	p.fire(t, "k", `{"type":"c.d","data":{},"correlation_id":"order-7"}`)
	if n := count(t, db, `SELECT count(*) FROM app.chains WHERE chain = 'order-7'`); n != 1 {
		t.Error("the function was told of another chain")
	}
	if w := told.next(t); w.header.Get("Eventsvc-Correlation-Id") != "order-7" {
		t.Errorf("over HTTP: %v", w.header)
	}
}
