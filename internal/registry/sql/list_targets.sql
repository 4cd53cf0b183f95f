-- registry: targets of a fan-out receiver in the order of their names, after a name. No rows: none is left.
SELECT t.id, t.name, t.url, t.declaration, t.version, t.paused_at, t.disabled_at, t.created_at, t.updated_at
FROM eventsvc.targets t
JOIN eventsvc.receivers r ON r.id = t.receiver_id
WHERE r.key = @receiver AND r.deleted_at IS NULL
  AND t.name > @after AND t.name <> '' AND t.deleted_at IS NULL
  AND (@tenant::text IS NULL OR t.declaration ->> 'tenant' = @tenant)
ORDER BY t.name
LIMIT @limit;
