-- registry: write an event type, over an older or a deleted one. Always one row.
INSERT INTO eventsvc.event_types (name, description, schema, example, retention, revision)
VALUES (@name, @description, @schema, @example, @retention, @revision)
ON CONFLICT (name) DO UPDATE SET
  description = excluded.description,
  schema      = excluded.schema,
  example     = excluded.example,
  retention   = excluded.retention,
  version     = event_types.version + 1,
  created_at  = CASE WHEN event_types.deleted_at IS NULL THEN event_types.created_at ELSE now() END,
  updated_at  = now(),
  deleted_at  = NULL,
  revision    = excluded.revision
RETURNING name;
