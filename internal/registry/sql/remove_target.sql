-- registry: mark a target deleted. No rows: there is none of that name and version.
UPDATE eventsvc.targets t
SET deleted_at = now(), paused_at = NULL, disabled_at = NULL, revision = @revision
FROM eventsvc.receivers r
WHERE r.key = @receiver AND r.deleted_at IS NULL AND t.receiver_id = r.id
  AND t.name = @name AND t.deleted_at IS NULL
  AND (@version::integer <= 0 OR t.version = @version)
RETURNING t.id;
