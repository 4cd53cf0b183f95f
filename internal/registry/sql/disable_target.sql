-- registry: switch a target off, once; answers its names. No rows: it is off already, or gone.
UPDATE eventsvc.targets t
SET disabled_at = now(), revision = @revision
FROM eventsvc.receivers r
WHERE t.id = @id AND t.disabled_at IS NULL AND t.deleted_at IS NULL AND r.id = t.receiver_id
RETURNING r.key, t.name;
