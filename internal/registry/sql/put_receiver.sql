-- registry: write a declaration, over an older one or over a deleted receiver of that key. Always one row.
INSERT INTO eventsvc.receivers (key, lane_id, declaration, revision)
VALUES (@key, @lane, @declaration, @revision)
ON CONFLICT (key) DO UPDATE SET
  lane_id     = excluded.lane_id,
  declaration = excluded.declaration,
  version     = receivers.version + 1,
  updated_at  = now(),
  created_at  = CASE WHEN receivers.deleted_at IS NULL THEN receivers.created_at ELSE now() END,
  paused_at   = CASE WHEN receivers.deleted_at IS NULL THEN receivers.paused_at END,
  deleted_at  = NULL,
  revision    = excluded.revision
RETURNING id;
