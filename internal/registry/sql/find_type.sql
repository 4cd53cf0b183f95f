-- registry: one event type. No rows: it is not declared.
SELECT name, description, schema, example, retention, version, created_at, updated_at
FROM eventsvc.event_types
WHERE name = @name
  AND deleted_at IS NULL;
