-- registry: one receiver with its own address. No rows: there is none of that key, or it was deleted.
SELECT r.id, r.key, r.declaration, r.version, r.paused_at, r.created_at, r.updated_at,
       coalesce(t.id, 0) AS target_id, coalesce(t.url, '') AS url
FROM eventsvc.receivers r
LEFT JOIN eventsvc.targets t ON t.receiver_id = r.id AND t.name = ''
WHERE r.key = @key
  AND r.deleted_at IS NULL;
