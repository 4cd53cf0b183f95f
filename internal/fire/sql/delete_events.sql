-- fire: delete locked events of which nothing else is left, with their keys; a key that is younger than a week stays, and is marked with when it goes. Answers how many events are gone.
WITH gone AS (
  DELETE FROM eventsvc.events WHERE id = ANY (@ids::uuid[])
  RETURNING id, producer, idempotency_key, recorded_at
),
u AS (
  DELETE FROM eventsvc.unmatched m USING gone WHERE m.event_id = gone.id  -- refused, and nobody has replayed it
),
k AS (
  SELECT f.producer, f.key, g.recorded_at, g.recorded_at + interval '7 days' AS until
  FROM gone g
  JOIN eventsvc.fire_keys f ON f.producer = g.producer AND f.key = g.idempotency_key AND f.event_id = g.id
  ORDER BY f.producer, f.key  -- the order in which fires lock them
  FOR UPDATE OF f
),
old AS (
  DELETE FROM eventsvc.fire_keys f USING k WHERE f.producer = k.producer AND f.key = k.key AND k.until <= now()
),
young AS (
  UPDATE eventsvc.fire_keys f SET recorded_at = k.recorded_at, forget_at = k.until
  FROM k
  WHERE f.producer = k.producer AND f.key = k.key AND k.until > now()
)
SELECT count(*) FROM gone;
