-- What operations need: frozen formats, retention, who serves which lane, and when
-- receivers last succeeded.
SET LOCAL lock_timeout = '3s';

-- A delivery keeps the format it was owed in, so that a changed declaration changes no
-- byte of a delivery under way (P7). Numbers are those of internal/ledger/format.go.
ALTER TABLE eventsvc.owed    ADD COLUMN format smallint NOT NULL DEFAULT 0;
ALTER TABLE eventsvc.settled ADD COLUMN format smallint NOT NULL DEFAULT 0;

-- Retention is copied onto the event when it is fired: the prune reads rows only. Both
-- null: the process's own window.
ALTER TABLE eventsvc.events
  ADD COLUMN keep_until  timestamptz,            -- a window of its own ends here
  ADD COLUMN forget_when text CHECK (forget_when IN ('succeeded', 'settled'));  -- once every delivery has; once every one is terminal
CREATE INDEX events_keep_until  ON eventsvc.events (keep_until) WHERE keep_until  IS NOT NULL;
CREATE INDEX events_forget_when ON eventsvc.events (id)         WHERE forget_when IS NOT NULL;

-- A key outlives an event that was pruned early: it is known for a week at least (P2).
-- What a repeat is told of the event comes from the repeat itself, but for its time.
ALTER TABLE eventsvc.fire_keys
  ADD COLUMN recorded_at timestamptz,            -- of the event, once that is gone
  ADD COLUMN forget_at   timestamptz;            -- when the key goes too
CREATE INDEX fire_keys_forget ON eventsvc.fire_keys (forget_at) WHERE forget_at IS NOT NULL;

-- A worker says now and then that it lives, and which lanes it serves; null is every lane.
ALTER TABLE eventsvc.workers
  ADD COLUMN lanes   text[],
  ADD COLUMN seen_at timestamptz NOT NULL DEFAULT now();

-- When each target last acknowledged something. It only moves forward, and outlives the
-- deliveries that are pruned.
CREATE TABLE eventsvc.last_success (
  target_id    integer     NOT NULL PRIMARY KEY,
  succeeded_at timestamptz NOT NULL
) WITH (fillfactor = 70);
