-- bench: deliveries of a receiver's only target that have succeeded at their first attempt, spread over six days until five minutes ago: what is owed beside them is younger, as it would be, and does not go into the middle of their indexes.
WITH t AS (
  SELECT t.id FROM eventsvc.targets t JOIN eventsvc.receivers r ON r.id = t.receiver_id WHERE r.key = $1
),
written AS (
  INSERT INTO eventsvc.events (id, type, producer, idempotency_key, data, recorded_at)
  SELECT (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '7' || lpad(to_hex(t.id), 3, '0') || lpad(to_hex(n), 16, '8000000000000000'))::uuid,
         $2, 0, $1 || n, $3::bytea, at
  FROM t, generate_series($4::integer, $5::integer) n, LATERAL (SELECT now() - interval '5 minutes' - interval '6 days' * (1 - n::float / ($6::integer + 1)) AS at) a
  RETURNING id, recorded_at, idempotency_key
),
spent AS (
  INSERT INTO eventsvc.fire_keys (producer, key, event_id, body_sha256, owes)
  SELECT 0, w.idempotency_key, w.id, sha256($3::bytea), '[]' FROM written w
),
ended AS (
  INSERT INTO eventsvc.settled (event_id, target_id, id, status, attempts, max_attempts, sending, owed_since, due_at, completed_at)
  SELECT w.id, t.id, w.id, 'succeeded', 1, 20, 1, w.recorded_at, '-infinity', w.recorded_at + interval '10 ms'
  FROM written w, t
)
INSERT INTO eventsvc.attempts (event_id, delivery_id, number, outcome, http_status, worker, duration_ms, started_at)
SELECT w.id, w.id, 1, 'succeeded', 200, 1, 5, w.recorded_at
FROM written w;
