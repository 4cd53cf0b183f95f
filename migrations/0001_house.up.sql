-- The house: one schema, one writer a table (ARCHITECTURE.md, "Tables and their owners").
-- Times are the database's: every duration is passed in and added to now() here.
SET LOCAL lock_timeout = '3s';

CREATE SCHEMA eventsvc;

-- Registry: who is told. ----------------------------------------------------------

-- One row. Every write to a registry table draws the next revision in its own
-- transaction and stamps it on the rows it touched, so that a process can tell at the
-- price of reading one number whether what it remembers is current, and read only what
-- is newer.
CREATE TABLE eventsvc.registry (
  one      boolean PRIMARY KEY DEFAULT true CHECK (one),
  revision bigint  NOT NULL
);
INSERT INTO eventsvc.registry (revision) VALUES (1);

CREATE TABLE eventsvc.lanes (
  id        integer     GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name      text        NOT NULL UNIQUE CHECK (name <> ''),
  paused_at timestamptz,
  revision  bigint      NOT NULL
);
INSERT INTO eventsvc.lanes (name, revision) VALUES ('default', 1);

-- A receiver that was deleted keeps its row, since deliveries that it was owed still
-- name it; declared again, it is the same receiver.
CREATE TABLE eventsvc.receivers (
  id          integer     GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  key         text        NOT NULL UNIQUE CHECK (key <> ''),
  lane_id     integer     NOT NULL REFERENCES eventsvc.lanes,
  declaration jsonb       NOT NULL,             -- the declared terms, checked before they are written
  version     integer     NOT NULL DEFAULT 1,   -- the ETag
  paused_at   timestamptz,
  created_at  timestamptz NOT NULL DEFAULT now(),
  updated_at  timestamptz NOT NULL DEFAULT now(),
  deleted_at  timestamptz,
  revision    bigint      NOT NULL
);
CREATE INDEX receivers_revision ON eventsvc.receivers (revision);

-- A target is one address: of a fan-out receiver, or the single implicit one (named '')
-- of any other receiver. Its number is all that the hot table knows of a receiver.
CREATE TABLE eventsvc.targets (
  id          integer     GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  receiver_id integer     NOT NULL REFERENCES eventsvc.receivers,
  name        text        NOT NULL DEFAULT '',
  url         text        NOT NULL,
  paused_at   timestamptz,
  created_at  timestamptz NOT NULL DEFAULT now(),
  deleted_at  timestamptz,
  revision    bigint      NOT NULL,
  UNIQUE (receiver_id, name)
);
CREATE INDEX targets_revision ON eventsvc.targets (revision);

-- Several live secrets of one target are a rotation under way.
CREATE TABLE eventsvc.secrets (
  id         integer     GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  target_id  integer     NOT NULL REFERENCES eventsvc.targets,
  sealed     bytea       NOT NULL,              -- see internal/registry/seal.go
  created_at timestamptz NOT NULL DEFAULT now(),
  expires_at timestamptz NOT NULL DEFAULT 'infinity'
);
CREATE INDEX secrets_target ON eventsvc.secrets (target_id);

-- Fire: the fact and its key. -------------------------------------------------------

-- Keys stand in a table of their own that is never partitioned: a unique key on a
-- partitioned table would have to include the time, and one key could fire twice.
CREATE TABLE eventsvc.fire_keys (
  producer    integer NOT NULL,                 -- whose key it is; 0 is the operator
  key         text    NOT NULL CHECK (length(key) BETWEEN 1 AND 255),
  event_id    uuid    NOT NULL,
  body_sha256 bytea   NOT NULL CHECK (length(body_sha256) = 32),
  owes        bytea   NOT NULL,                 -- what the first answer named, so that a replay can say it again
  PRIMARY KEY (producer, key)
);

-- The id is a UUIDv7 and so holds the time: it is primary key and partition key at once,
-- reads by id open one partition, and old partitions can be dropped whole.
CREATE TABLE eventsvc.events (
  id              uuid        NOT NULL PRIMARY KEY,
  recorded_at     timestamptz NOT NULL DEFAULT now(),
  type            text        NOT NULL,
  producer        integer     NOT NULL,
  idempotency_key text        NOT NULL,
  tenant          text,
  subject         text,
  source          text,
  occurred_at     timestamptz,                  -- null: the producer gave none, recorded_at stands in
  correlation_id  text,                         -- null: the event begins its own chain, named by its id
  causation_id    text,
  actor           jsonb,
  metadata        jsonb,
  suppressed      text,                         -- the reason, where the event is owed to nobody
  traceparent     text,
  data            bytea       NOT NULL          -- exactly as posted; jsonb would reorder keys, refuse \u0000 and unfold huge exponents
) PARTITION BY RANGE (id);
CREATE INDEX events_type        ON eventsvc.events (type, id);
CREATE INDEX events_tenant      ON eventsvc.events (tenant, id)         WHERE tenant IS NOT NULL;
CREATE INDEX events_subject     ON eventsvc.events (subject, id)        WHERE subject IS NOT NULL;
CREATE INDEX events_correlation ON eventsvc.events (correlation_id, id) WHERE correlation_id IS NOT NULL;

-- Ledger: what is owed, and what became of it. -----------------------------------------

-- One row per process that claims. Claims carry its number, so a name that two
-- processes share cannot let one act for the other.
CREATE TABLE eventsvc.workers (
  id         integer     GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name       text        NOT NULL,
  started_at timestamptz NOT NULL DEFAULT now()
);

-- The hot row of a delivery until it is terminal. Every column is fixed width and NOT NULL
-- and no index names a column that a claim changes, so that a claim is a HOT update: it
-- writes no index entry. '-infinity' stands for "none".
CREATE TABLE eventsvc.owed (
  id           uuid        NOT NULL PRIMARY KEY,
  event_id     uuid        NOT NULL,
  available_at timestamptz NOT NULL,
  claimed_at   timestamptz NOT NULL DEFAULT '-infinity',
  lease_until  timestamptz NOT NULL DEFAULT '-infinity',
  owed_since   timestamptz NOT NULL,
  due_at       timestamptz NOT NULL DEFAULT '-infinity',
  target_id    integer     NOT NULL,
  claimed_by   integer     NOT NULL DEFAULT 0,
  attempts     smallint    NOT NULL DEFAULT 0 CHECK (attempts >= 0),
  max_attempts smallint    NOT NULL CHECK (max_attempts > 0),
  claims       smallint    NOT NULL DEFAULT 0 CHECK (claims >= 0),  -- lost claims so far, plus the one in force
  sending      smallint    NOT NULL DEFAULT 1,                      -- suffix of webhook-id after a replay
  failed       boolean     NOT NULL DEFAULT false,                  -- tells failed from pending
  CHECK ((claimed_by = 0) = (claimed_at = '-infinity')),
  CHECK ((claimed_by = 0) = (lease_until = '-infinity'))
) WITH (
  fillfactor = 45,                        -- a claim batch rewrites whole pages before pruning can run: half of each must be free
  vacuum_truncate = off,                  -- truncating the empty tail would take ACCESS EXCLUSIVE and stall claims
  autovacuum_vacuum_scale_factor = 0,     -- by count, not by share: the table is small and its churn is not
  autovacuum_vacuum_threshold = 20000,
  autovacuum_vacuum_insert_threshold = -1,
  autovacuum_vacuum_cost_delay = 0,
  autovacuum_analyze_scale_factor = 0.2
);
-- One event owes one receiver (or target) once. Also finds the deliveries of an event.
CREATE UNIQUE INDEX owed_event ON eventsvc.owed (event_id, target_id);
-- The claim's index: one range per target, in claim order. No predicate on the state of the
-- claim, so unclaimed rows and lapsed leases are found alike and no reaper is needed.
CREATE INDEX owed_claim ON eventsvc.owed (target_id, available_at, id);

CREATE TYPE eventsvc.ending  AS ENUM ('succeeded', 'dead', 'orphaned', 'cancelled');
CREATE TYPE eventsvc.outcome AS ENUM ('succeeded', 'failed', 'deferred', 'not_yet', 'unknown');

-- A delivery that is terminal. The statement that deletes the owed row inserts this one.
-- Partitioned like its event, so that an event and all its history go together.
CREATE TABLE eventsvc.settled (
  event_id     uuid            NOT NULL,
  target_id    integer         NOT NULL,
  id           uuid            NOT NULL,
  status       eventsvc.ending NOT NULL,
  attempts     smallint        NOT NULL,
  max_attempts smallint        NOT NULL,
  sending      smallint        NOT NULL,
  owed_since   timestamptz     NOT NULL,
  due_at       timestamptz     NOT NULL,
  completed_at timestamptz     NOT NULL DEFAULT now(),
  PRIMARY KEY (event_id, target_id)
) PARTITION BY RANGE (event_id);
CREATE INDEX settled_id ON eventsvc.settled (id);
-- What people look for: the few that did not succeed.
CREATE INDEX settled_amiss ON eventsvc.settled (status, id) WHERE status <> 'succeeded';

-- The trail: one row for each attempt, and one with outcome unknown for each lost claim.
CREATE TABLE eventsvc.attempts (
  event_id    uuid             NOT NULL,
  delivery_id uuid             NOT NULL,
  number      smallint         NOT NULL,
  outcome     eventsvc.outcome NOT NULL,
  http_status smallint         NOT NULL DEFAULT 0,   -- as sent, any three digits; 0 where no status line was read
  worker      integer          NOT NULL,
  duration_ms integer          NOT NULL DEFAULT 0,
  started_at  timestamptz      NOT NULL,
  class       text,
  error       text,
  evidence    bytea                                  -- JSON, as bytes: nothing a receiver sent can make this insert fail
) PARTITION BY RANGE (event_id);
CREATE INDEX attempts_delivery ON eventsvc.attempts (delivery_id, started_at);

-- Partitions: one a week, named after its Monday, for the three tables that grow with events.
-- There is no default partition: it would forbid detaching without blocking fires. A partition
-- is built beside its parent and attached, which does not wait for readers or writers as
-- CREATE TABLE ... PARTITION OF would.
CREATE FUNCTION eventsvc.uuid_floor(at timestamptz) RETURNS uuid
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '00000000000000000000')::uuid;

CREATE FUNCTION eventsvc.make_partitions(since timestamptz, until timestamptz) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  monday timestamptz := date_trunc('week', since AT TIME ZONE 'UTC') AT TIME ZONE 'UTC';
  parent text;
  child  text;
  made   integer := 0;
BEGIN
  WHILE monday < until LOOP
    FOREACH parent IN ARRAY ARRAY['events', 'settled', 'attempts'] LOOP
      child := format('%s_%s', parent, to_char(monday AT TIME ZONE 'UTC', 'YYYYMMDD'));
      IF to_regclass(format('eventsvc.%I', child)) IS NULL THEN
        EXECUTE format('CREATE TABLE eventsvc.%I (LIKE eventsvc.%I INCLUDING ALL)', child, parent);
        EXECUTE format('ALTER TABLE eventsvc.%I ATTACH PARTITION eventsvc.%I FOR VALUES FROM (%L) TO (%L)',
          parent, child, eventsvc.uuid_floor(monday), eventsvc.uuid_floor(monday + interval '7 days'));
        made := made + 1;
      END IF;
    END LOOP;
    monday := monday + interval '7 days';
  END LOOP;
  RETURN made;
END $$;

SELECT eventsvc.make_partitions(now() - interval '7 days', now() + interval '42 days');
