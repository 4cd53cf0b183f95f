-- registry: receivers in the order of their keys, after a key. No rows: none is left.
SELECT r.id, r.key, r.declaration, r.version, r.paused_at, r.created_at, r.updated_at,
       coalesce(t.id, 0) AS target_id, coalesce(t.url, '') AS url
FROM eventsvc.receivers r
LEFT JOIN eventsvc.targets t ON t.receiver_id = r.id AND t.name = ''
WHERE r.key > @after
  AND r.deleted_at IS NULL
  AND (@tenant::text IS NULL OR r.declaration ->> 'tenant' = @tenant)
ORDER BY r.key
LIMIT @limit;
