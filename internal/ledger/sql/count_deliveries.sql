-- ledger: how many deliveries meet every given filter, by status; ten thousand of those that are owed are counted, and the newest ten thousand of the others. No rows: none does.
WITH wanted AS (
  SELECT t.id
  FROM eventsvc.targets t
  JOIN eventsvc.receivers r ON r.id = t.receiver_id
  JOIN eventsvc.lanes l ON l.id = r.lane_id
  WHERE (@receiver::text[] IS NULL OR r.key = ANY (@receiver))
    AND (@target::text[] IS NULL OR t.name = ANY (@target))
    AND (@lane::text IS NULL OR l.name = @lane)
)
SELECT d.status, count(*) AS n
FROM (
  (SELECT CASE WHEN o.claimed_by <> 0 THEN 'claimed' WHEN o.failed THEN 'failed' ELSE 'pending' END AS status
   FROM eventsvc.owed o
   JOIN eventsvc.events e ON e.id = o.event_id
   WHERE (@event::uuid IS NULL OR o.event_id = @event)
     AND (@type::text IS NULL OR e.type = @type)
     AND (@tenant::text IS NULL OR e.tenant = @tenant)
     AND (@since::timestamptz IS NULL OR e.recorded_at >= @since)
     AND (@until::timestamptz IS NULL OR e.recorded_at < @until)
     AND (@everywhere::boolean OR o.target_id IN (SELECT id FROM wanted))
   LIMIT 10000)
  UNION ALL
  (SELECT s.status::text
   FROM eventsvc.settled s
   JOIN eventsvc.events e ON e.id = s.event_id
   WHERE (@event::uuid IS NULL OR s.event_id = @event)
     AND (@type::text IS NULL OR e.type = @type)
     AND (@tenant::text IS NULL OR e.tenant = @tenant)
     AND (@since::timestamptz IS NULL OR e.recorded_at >= @since)
     AND (@until::timestamptz IS NULL OR e.recorded_at < @until)
     AND (@everywhere::boolean OR s.target_id IN (SELECT id FROM wanted))
   ORDER BY s.event_id DESC
   LIMIT 10000)
) d
GROUP BY d.status;
