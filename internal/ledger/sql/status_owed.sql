-- ledger: how much is owed and dead, by receiver. A delivery whose due time is still to come is scheduled, and no backlog. No rows: nothing is.
WITH o AS (
  SELECT target_id,
         count(*) FILTER (WHERE due_at <= now()) AS owed,
         count(*) FILTER (WHERE due_at > now()) AS scheduled,
         count(*) FILTER (WHERE claimed_by <> 0) AS claimed,
         count(*) FILTER (WHERE claimed_by <> 0 AND lease_until < now()) AS lapsed,
         -- From when it arrived, or was due, whichever is later: neither backoff nor a long schedule makes it older or younger.
         min(greatest(owed_since, due_at)) FILTER (WHERE due_at <= now()) AS oldest,
         0::bigint AS dead
  FROM eventsvc.owed
  GROUP BY target_id
  UNION ALL
  SELECT target_id, 0, 0, 0, 0, NULL, count(*)
  FROM eventsvc.settled
  WHERE status = 'dead'
  GROUP BY target_id
)
SELECT r.key AS receiver, l.name AS lane,
       r.paused_at IS NOT NULL AS paused, r.deleted_at IS NOT NULL AS gone,
       sum(o.owed)::bigint AS owed, sum(o.scheduled)::bigint AS scheduled, sum(o.claimed)::bigint AS claimed,
       sum(o.lapsed)::bigint AS lapsed, sum(o.dead)::bigint AS dead,
       coalesce(extract(epoch FROM now() - min(o.oldest)), 0)::float8 AS oldest_seconds
FROM o
JOIN eventsvc.targets t   ON t.id = o.target_id
JOIN eventsvc.receivers r ON r.id = t.receiver_id
JOIN eventsvc.lanes l     ON l.id = r.lane_id
GROUP BY r.id, l.name
ORDER BY oldest_seconds DESC, owed DESC, r.key;
