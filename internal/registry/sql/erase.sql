-- registry: mark every receiver and target deleted, under one revision. For tests.
WITH r AS (
  UPDATE eventsvc.receivers SET deleted_at = coalesce(deleted_at, now()), revision = @revision
)
UPDATE eventsvc.targets SET deleted_at = coalesce(deleted_at, now()), revision = @revision;
