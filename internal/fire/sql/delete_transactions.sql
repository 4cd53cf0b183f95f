-- fire: delete up to so many transactions, with their keys, that were decided longer ago than everything is kept and that no event is left of. Answers how many.
WITH old AS (
  SELECT t.id, t.producer, t.key
  FROM eventsvc.transactions t
  WHERE t.state IN ('committed', 'rolled_back')
    AND t.id < eventsvc.uuid_floor(now() - greatest(@keep::interval, interval '7 days'))
    AND t.decided_at < now() - greatest(@keep::interval, interval '7 days')
    AND NOT EXISTS (SELECT 1 FROM eventsvc.events e WHERE e.id = ANY (t.events))
  ORDER BY t.id
  LIMIT @n
  FOR UPDATE SKIP LOCKED
),
k AS (
  DELETE FROM eventsvc.fire_keys f USING old WHERE f.producer = old.producer AND f.key = old.key AND f.event_id = old.id
)
DELETE FROM eventsvc.transactions t USING old WHERE t.id = old.id;
