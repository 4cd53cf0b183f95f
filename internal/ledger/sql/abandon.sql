-- ledger: end up to so many deliveries that targets are owed, but for those that a live claim or another transaction holds. Answers how many ended.
WITH h AS (
  SELECT id
  FROM eventsvc.owed
  WHERE target_id = ANY (@targets::integer[])
    AND lease_until < now()
  LIMIT @n
  FOR UPDATE SKIP LOCKED  -- waits for nobody, so it can neither hold a recorder up nor deadlock with one
),
gone AS (
  DELETE FROM eventsvc.owed o
  USING h
  WHERE o.id = h.id
  RETURNING o.event_id, o.target_id, o.id, o.attempts, o.max_attempts, o.sending, o.format, o.owed_since, o.due_at
),
ended AS (
  INSERT INTO eventsvc.settled (event_id, target_id, id, status, attempts, max_attempts, sending, format, owed_since, due_at)
  SELECT event_id, target_id, id, @status::text::eventsvc.ending, attempts, max_attempts, sending, format, owed_since, due_at
  FROM gone
)
SELECT count(*) FROM gone;
