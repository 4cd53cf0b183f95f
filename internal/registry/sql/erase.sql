-- registry: mark every receiver, target and event type deleted, under one revision. For tests.
WITH r AS (
  UPDATE eventsvc.receivers SET deleted_at = coalesce(deleted_at, now()), revision = @revision
),
e AS (
  UPDATE eventsvc.event_types SET deleted_at = coalesce(deleted_at, now()), revision = @revision
)
UPDATE eventsvc.targets SET deleted_at = coalesce(deleted_at, now()), revision = @revision;
