-- registry: mark a receiver and all its targets deleted; answers the targets. No rows: there is none of that key and version.
WITH gone AS (
  UPDATE eventsvc.receivers
  SET deleted_at = now(), paused_at = NULL, revision = @revision
  WHERE key = @key
    AND deleted_at IS NULL
    AND (@version::integer <= 0 OR version = @version)
  RETURNING id)
UPDATE eventsvc.targets t
SET deleted_at = now(), paused_at = NULL, disabled_at = NULL, revision = @revision
FROM gone
WHERE t.receiver_id = gone.id
RETURNING t.id;
