-- ledger: withdraw deliveries that nobody holds. A claim that is being made at this moment either has the row, and it is passed over, or never gets it. Answers the ids withdrawn.
WITH h AS (
  SELECT id
  FROM eventsvc.owed
  WHERE id = ANY (@ids::uuid[])
    AND claimed_by = 0
  ORDER BY id
  FOR UPDATE
),
gone AS (
  DELETE FROM eventsvc.owed o
  USING h
  WHERE o.id = h.id
  RETURNING o.event_id, o.target_id, o.id, o.attempts, o.max_attempts, o.sending, o.format, o.owed_since, o.due_at
)
INSERT INTO eventsvc.settled (event_id, target_id, id, status, attempts, max_attempts, sending, format, owed_since, due_at)
SELECT event_id, target_id, id, 'cancelled', attempts, max_attempts, sending, format, owed_since, due_at
FROM gone
RETURNING id;
