-- registry: pause a target, or resume it, which also switches a disabled one on again. No rows: there is none of that name.
UPDATE eventsvc.targets t
SET paused_at = CASE WHEN @paused::boolean THEN coalesce(t.paused_at, now()) END,
    disabled_at = CASE WHEN @paused::boolean THEN t.disabled_at END,
    revision = @revision
FROM eventsvc.receivers r
WHERE r.key = @receiver AND r.deleted_at IS NULL AND t.receiver_id = r.id
  AND t.name = @name AND t.deleted_at IS NULL
RETURNING t.id;
