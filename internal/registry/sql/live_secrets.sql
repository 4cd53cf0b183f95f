-- registry: the live secrets of a target, newest first. No rows: it has none.
SELECT sealed
FROM eventsvc.secrets
WHERE target_id = @target
  AND expires_at > now()
ORDER BY id DESC;
