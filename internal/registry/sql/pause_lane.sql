-- registry: pause or resume a lane. No rows: there is none of that name.
UPDATE eventsvc.lanes
SET paused_at = CASE WHEN @paused::boolean THEN coalesce(paused_at, now()) END, revision = @revision
WHERE name = @name
RETURNING id;
