-- registry: one receiver with its own address. No rows: there is none of that key, or it was deleted.
SELECT r.id, r.key, r.declaration, r.version, r.paused_at, r.created_at, r.updated_at, t.id AS target_id, t.url
FROM eventsvc.receivers r
JOIN eventsvc.targets t ON t.receiver_id = r.id AND t.name = ''
WHERE r.key = @key
  AND r.deleted_at IS NULL;
