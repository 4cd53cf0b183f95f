-- registry: event types in the order of their names, after a name. No rows: none is left.
SELECT name, description, schema, example, retention, version, created_at, updated_at
FROM eventsvc.event_types
WHERE name > @after
  AND deleted_at IS NULL
ORDER BY name
LIMIT @limit;
