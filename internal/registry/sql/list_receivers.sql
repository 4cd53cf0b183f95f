-- registry: receivers in the order of their keys, after a key. No rows: none is left.
SELECT r.id, r.key, r.declaration, r.version, r.paused_at, r.created_at, r.updated_at, t.id AS target_id, t.url
FROM eventsvc.receivers r
JOIN eventsvc.targets t ON t.receiver_id = r.id AND t.name = ''
WHERE r.key > @after
  AND r.deleted_at IS NULL
ORDER BY r.key
LIMIT @limit;
