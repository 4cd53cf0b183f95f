-- registry: pause or resume a receiver. No rows: there is none of that key.
UPDATE eventsvc.receivers
SET paused_at = CASE WHEN @paused::boolean THEN coalesce(paused_at, now()) END, revision = @revision
WHERE key = @key
  AND deleted_at IS NULL
RETURNING id;
