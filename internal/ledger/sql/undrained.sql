-- ledger: how many deliveries are under way, or could be attempted now, or would be made due by a hasten with the same arguments. Always one row. For tests.
-- One snapshot for all three: a delivery that goes from one to the next meanwhile is never missed.
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
SELECT count(*)
FROM eventsvc.owed o
JOIN eventsvc.targets t   ON t.id = o.target_id   AND t.paused_at IS NULL AND t.disabled_at IS NULL
JOIN eventsvc.receivers r ON r.id = t.receiver_id AND r.paused_at IS NULL
JOIN eventsvc.lanes l     ON l.id = r.lane_id     AND l.paused_at IS NULL
-- What workers elsewhere claim is theirs to bring to its end.
WHERE NOT (coalesce(r.declaration ->> 'site', '') = 'task' AND t.url = '' AND r.deleted_at IS NULL AND t.deleted_at IS NULL)
  AND (o.claimed_by <> 0
       OR o.target_id NOT IN (SELECT target_id FROM aside)
          AND (o.available_at <= now()
               OR o.due_at <= greatest(@until::timestamptz, now())
                  AND NOT EXISTS (
                    SELECT 1
                    FROM eventsvc.attempts a
                    WHERE a.event_id = o.event_id AND a.delivery_id = o.id AND a.outcome = 'deferred' AND a.started_at >= @since
                  )));
