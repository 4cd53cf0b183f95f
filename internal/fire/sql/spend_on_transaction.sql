-- fire: spend a key on a transaction. Answers the registry's revision, and whether the key was won.
WITH k AS (
  INSERT INTO eventsvc.fire_keys (producer, key, event_id, body_sha256, owes)
  VALUES (@producer, @key, @id, @hash, '[]')
  ON CONFLICT DO NOTHING  -- waits for a transaction under way that holds the key
  RETURNING event_id
)
SELECT r.revision, EXISTS (SELECT 1 FROM k) FROM eventsvc.registry r;
