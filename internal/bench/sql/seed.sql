-- bench: rows of a backlog, from one number to another, of a receiver's only target: fired a minute ago and never tried.
WITH t AS (
  SELECT t.id FROM eventsvc.targets t JOIN eventsvc.receivers r ON r.id = t.receiver_id WHERE r.key = $1 AND $6::integer > 0
),
written AS (
  INSERT INTO eventsvc.events (id, type, producer, idempotency_key, data)
  SELECT (lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint - 60000), 12, '0') || '7' || lpad(to_hex(t.id), 3, '0') || lpad(to_hex(n), 16, '8000000000000000'))::uuid,
         $2, 0, $1 || n, $3::bytea
  FROM t, generate_series($4::integer, $5::integer) n
  RETURNING id
)
INSERT INTO eventsvc.owed (id, event_id, target_id, max_attempts, available_at, owed_since)
SELECT w.id, w.id, t.id, 20, now() - interval '1 minute', now() - interval '1 minute'
FROM written w, t;
