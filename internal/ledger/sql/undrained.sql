-- ledger: how many deliveries are under way or could be attempted now. Always one row. For tests.
SELECT count(*)
FROM eventsvc.owed o
JOIN eventsvc.targets t   ON t.id = o.target_id   AND t.paused_at IS NULL
JOIN eventsvc.receivers r ON r.id = t.receiver_id AND r.paused_at IS NULL
JOIN eventsvc.lanes l     ON l.id = r.lane_id     AND l.paused_at IS NULL
WHERE o.claimed_by <> 0 OR o.available_at <= now();
