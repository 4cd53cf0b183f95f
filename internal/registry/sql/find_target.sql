-- registry: one target of a fan-out receiver. No rows: there is none of that name.
SELECT t.id, t.name, t.url, t.declaration, t.version, t.paused_at, t.disabled_at, t.created_at, t.updated_at
FROM eventsvc.targets t
JOIN eventsvc.receivers r ON r.id = t.receiver_id
WHERE r.key = @receiver AND r.deleted_at IS NULL
  AND t.name = @name AND t.deleted_at IS NULL;
