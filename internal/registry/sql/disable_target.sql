-- registry: switch a target off, once. No rows: it is off already, or gone.
UPDATE eventsvc.targets
SET disabled_at = now(), revision = @revision
WHERE id = @id AND disabled_at IS NULL AND deleted_at IS NULL
RETURNING id;
