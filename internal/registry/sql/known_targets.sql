-- registry: those of these names that a receiver has live targets of. No rows: none.
SELECT t.id, t.name, t.url, t.declaration, t.version, t.paused_at, t.disabled_at, t.created_at, t.updated_at
FROM eventsvc.targets t
WHERE t.receiver_id = @receiver AND t.name = ANY (@names::text[]) AND t.deleted_at IS NULL;
