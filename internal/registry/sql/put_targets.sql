-- registry: write addresses, over older or deleted ones of their names. Answers each with its number.
INSERT INTO eventsvc.targets (receiver_id, name, url, declaration, revision)
SELECT @receiver, u.name, u.url, u.declaration::jsonb, @revision
FROM unnest(@names::text[], @urls::text[], @declarations::text[]) AS u(name, url, declaration)
ON CONFLICT (receiver_id, name) DO UPDATE SET
  url         = excluded.url,
  declaration = excluded.declaration,
  version     = targets.version + 1,
  updated_at  = now(),
  created_at  = CASE WHEN targets.deleted_at IS NULL THEN targets.created_at ELSE now() END,
  paused_at   = CASE WHEN targets.deleted_at IS NULL THEN targets.paused_at END,
  disabled_at = CASE WHEN targets.deleted_at IS NULL THEN targets.disabled_at END,
  deleted_at  = NULL,
  revision    = excluded.revision
RETURNING name, id;
