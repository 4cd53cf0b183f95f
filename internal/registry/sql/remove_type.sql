-- registry: mark an event type deleted. No rows: there is none of that name and version.
UPDATE eventsvc.event_types
SET deleted_at = now(), revision = @revision
WHERE name = @name
  AND deleted_at IS NULL
  AND (@version::integer <= 0 OR version = @version)
RETURNING name;
