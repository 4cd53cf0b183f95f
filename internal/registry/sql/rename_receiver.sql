-- registry: give a receiver another key. No rows: there is none of that key, or the other key has been given already.
UPDATE eventsvc.receivers
SET key = @to, version = version + 1, updated_at = now(), revision = @revision
WHERE key = @key
  AND deleted_at IS NULL
  AND NOT EXISTS (SELECT 1 FROM eventsvc.receivers o WHERE o.key = @to)
RETURNING id;
