-- Declared event types: what their data looks like, and for how long their events are kept.
SET LOCAL lock_timeout = '3s';

-- Optional: an event of an undeclared type is as good as any. Schema and example are bytes,
-- as they were declared: jsonb would reorder them. A type that was deleted keeps its row,
-- so that every process learns of it by the registry's revision.
CREATE TABLE eventsvc.event_types (
  name        text        NOT NULL PRIMARY KEY CHECK (name <> ''),
  description text        NOT NULL DEFAULT '',
  schema      bytea,
  example     bytea,
  retention   text        NOT NULL DEFAULT '',   -- a duration, succeeded or settled; '' is the process's window
  version     integer     NOT NULL DEFAULT 1,    -- the ETag
  created_at  timestamptz NOT NULL DEFAULT now(),
  updated_at  timestamptz NOT NULL DEFAULT now(),
  deleted_at  timestamptz,
  revision    bigint      NOT NULL
);
CREATE INDEX event_types_revision ON eventsvc.event_types (revision);
