-- registry: write an address, over an older or a deleted one of that name. Always one row.
INSERT INTO eventsvc.targets (receiver_id, name, url, revision)
VALUES (@receiver, @name, @url, @revision)
ON CONFLICT (receiver_id, name) DO UPDATE SET
  url        = excluded.url,
  paused_at  = CASE WHEN targets.deleted_at IS NULL THEN targets.paused_at END,
  deleted_at = NULL,
  revision   = excluded.revision
RETURNING id;
