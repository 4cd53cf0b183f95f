-- ledger: make due what waits for its backoff, and what is scheduled up to a moment; but not what a Retry-After since another moment holds off (P8), and not what is set aside: whatever a deferral since then would have paused. For tests.
WITH deferred AS (
  SELECT DISTINCT o.target_id
  FROM eventsvc.owed o
  JOIN eventsvc.attempts a ON a.event_id = o.event_id AND a.delivery_id = o.id
  WHERE a.class = 'deferred' AND a.started_at >= @since
),
aside AS (
  SELECT target_id FROM deferred
  UNION
  SELECT u.id
  FROM deferred d
  JOIN eventsvc.targets t   ON t.id = d.target_id
  JOIN eventsvc.receivers r ON r.id = t.receiver_id AND coalesce(r.declaration ->> 'pause_scope', 'lane') = 'lane'
  JOIN eventsvc.receivers n ON n.lane_id = r.lane_id
  JOIN eventsvc.targets u   ON u.receiver_id = n.id
)
UPDATE eventsvc.owed o
SET available_at = now()
WHERE o.claimed_by = 0
  AND o.available_at > now()
  AND o.due_at <= greatest(@until::timestamptz, now())
  AND o.target_id NOT IN (SELECT target_id FROM aside)
  AND NOT EXISTS (
    SELECT 1
    FROM eventsvc.attempts a
    WHERE a.event_id = o.event_id AND a.delivery_id = o.id AND a.outcome = 'deferred' AND a.started_at >= @since
  );
