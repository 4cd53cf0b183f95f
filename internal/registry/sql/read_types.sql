-- registry: event types that are newer than a known revision, deleted ones too. No rows: none is.
SELECT name, description, schema, example, retention, deleted_at IS NOT NULL AS deleted
FROM eventsvc.event_types
WHERE revision > @known;
