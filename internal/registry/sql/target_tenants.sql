-- registry: whose targets of these names a receiver has. No row for a name: there is no such target.
SELECT t.name, coalesce(t.declaration ->> 'tenant', '') AS tenant
FROM eventsvc.targets t
JOIN eventsvc.receivers r ON r.id = t.receiver_id
WHERE r.key = @receiver AND r.deleted_at IS NULL
  AND t.name = ANY (@names::text[]) AND t.deleted_at IS NULL;
