-- registry: the live secrets of a target that sign in one way, newest first. No rows: it has none.
SELECT sealed
FROM eventsvc.secrets
WHERE target_id = @target
  AND kind = @kind
  AND expires_at > now()
ORDER BY id DESC;
