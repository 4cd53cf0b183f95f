-- registry: a receiver's targets that have no live key pair. No rows: each has one.
SELECT t.id
FROM eventsvc.targets t
WHERE t.receiver_id = @receiver AND t.name <> '' AND t.deleted_at IS NULL
  AND NOT EXISTS (SELECT 1 FROM eventsvc.secrets s WHERE s.target_id = t.id AND s.kind = 'v1a' AND s.expires_at > now());
