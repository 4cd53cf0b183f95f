-- fire: delete up to so many keys that outlived their events by what they are kept for. Answers how many.
WITH few AS (
  SELECT producer, key FROM eventsvc.fire_keys WHERE forget_at < now() ORDER BY producer, key LIMIT @n FOR UPDATE SKIP LOCKED
)
DELETE FROM eventsvc.fire_keys f USING few WHERE f.producer = few.producer AND f.key = few.key;
