-- Transactions: events that are fired together under one key, at once or once they are decided.
SET LOCAL lock_timeout = '3s';

CREATE TYPE eventsvc.transaction_state AS ENUM ('prepared', 'committed', 'rolled_back', 'in_doubt');

-- Written by fire. The key is spent on the transaction's id: fire_keys.event_id names it where
-- there is no such event. What is prepared is held here, and is no event yet: nothing of it can
-- be seen, owed or pruned until it is committed.
CREATE TABLE eventsvc.transactions (
  id         uuid        NOT NULL PRIMARY KEY,
  producer   integer     NOT NULL,
  key        text        NOT NULL,
  tenant     text,                                 -- that its key is bound to, where it is
  prepared   boolean     NOT NULL,                 -- it was, before it was decided
  state      eventsvc.transaction_state NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  decided_at timestamptz,
  events     uuid[]      NOT NULL DEFAULT '{}',    -- once committed, in their order
  owes       bytea,                                -- what the answer to the commit named, so that a repeat can say it again
  held       bytea,                                -- the drafts, until it is decided
  check_url  text,
  check_secret bytea,                              -- sealed; see internal/registry/seal.go
  checks     smallint    NOT NULL DEFAULT 0,       -- how often the caller was asked
  check_at   timestamptz,                          -- when it is asked next; under a check, when that is given up
  checked    text,                                 -- what the last check came to
  CHECK ((state IN ('prepared', 'in_doubt')) = (held IS NOT NULL)),
  CHECK ((state IN ('committed', 'rolled_back')) = (decided_at IS NOT NULL)),
  CHECK ((check_url IS NULL) = (check_secret IS NULL))
);
CREATE INDEX transactions_open   ON eventsvc.transactions (state, id) WHERE state IN ('prepared', 'in_doubt');
CREATE INDEX transactions_due    ON eventsvc.transactions (check_at)  WHERE state = 'prepared';
CREATE INDEX transactions_tenant ON eventsvc.transactions (tenant, id) WHERE tenant IS NOT NULL;
