-- ledger: delete up to so many ended deliveries of events that are pruned, and keep when each target last succeeded. Answers how many.
WITH few AS (
  SELECT event_id, target_id FROM eventsvc.settled WHERE event_id = ANY (@events::uuid[]) LIMIT @n
),
gone AS (
  DELETE FROM eventsvc.settled s USING few
  WHERE s.event_id = few.event_id AND s.target_id = few.target_id
  RETURNING s.target_id, s.status, s.completed_at
),
kept AS (
  INSERT INTO eventsvc.last_success AS l (target_id, succeeded_at)
  SELECT target_id, max(completed_at) FROM gone WHERE status = 'succeeded' GROUP BY target_id ORDER BY target_id
  ON CONFLICT (target_id) DO UPDATE SET succeeded_at = greatest(l.succeeded_at, excluded.succeeded_at)
)
SELECT count(*) FROM gone;
