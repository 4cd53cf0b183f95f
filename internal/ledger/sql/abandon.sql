-- ledger: end what targets are owed, but for rows that a live claim holds. Answers how many rows ended and how many are held.
WITH h AS (
  SELECT id, lease_until >= now() AS held
  FROM eventsvc.owed
  WHERE target_id = ANY (@targets::integer[])
  ORDER BY id
  FOR UPDATE
),
gone AS (
  DELETE FROM eventsvc.owed o
  USING h
  WHERE o.id = h.id AND NOT h.held
  RETURNING o.event_id, o.target_id, o.id, o.attempts, o.max_attempts, o.sending, o.format, o.owed_since, o.due_at
),
ended AS (
  INSERT INTO eventsvc.settled (event_id, target_id, id, status, attempts, max_attempts, sending, format, owed_since, due_at)
  SELECT event_id, target_id, id, @status::text::eventsvc.ending, attempts, max_attempts, sending, format, owed_since, due_at
  FROM gone
)
SELECT count(*) FILTER (WHERE NOT held) AS ended, count(*) FILTER (WHERE held) AS held FROM h;
