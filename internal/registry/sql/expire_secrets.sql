-- registry: let the newest live secrets of a target and kind sign for so much longer, and forget the others: those that have expired, those beyond so many, and all where there is no overlap.
WITH kept AS (
  SELECT id
  FROM eventsvc.secrets
  WHERE target_id = @target AND kind = @kind AND expires_at > now() AND @overlap::interval > interval '0'
  ORDER BY id DESC
  LIMIT @keep
),
gone AS (
  DELETE FROM eventsvc.secrets
  WHERE target_id = @target AND kind = @kind AND id NOT IN (SELECT id FROM kept)
)
UPDATE eventsvc.secrets s
SET expires_at = least(s.expires_at, now() + @overlap::interval)
FROM kept
WHERE s.id = kept.id;
