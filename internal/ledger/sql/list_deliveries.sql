-- ledger: deliveries that meet every given filter, newest first, below an id. No rows: none does.
WITH wanted AS (
  SELECT t.id
  FROM eventsvc.targets t
  JOIN eventsvc.receivers r ON r.id = t.receiver_id
  JOIN eventsvc.lanes l ON l.id = r.lane_id
  WHERE (@receiver::text[] IS NULL OR r.key = ANY (@receiver))
    AND (@target::text[] IS NULL OR t.name = ANY (@target))
    AND (@lane::text IS NULL OR l.name = @lane)
),
d AS (
  (SELECT o.id, o.event_id, o.target_id,
          CASE WHEN o.claimed_by <> 0 THEN 'claimed' WHEN o.failed THEN 'failed' ELSE 'pending' END AS status,
          o.attempts, o.max_attempts, o.sending, o.available_at, o.due_at, o.owed_since,
          o.claimed_by, o.claimed_at, o.lease_until, NULL::timestamptz AS completed_at, o.failed
   FROM eventsvc.owed o
   JOIN eventsvc.events e ON e.id = o.event_id
   WHERE (@id::uuid IS NULL OR o.id = @id)
     AND (@below::uuid IS NULL OR o.id < @below)
     AND (@status::text IS NULL OR @status = CASE WHEN o.claimed_by <> 0 THEN 'claimed' WHEN o.failed THEN 'failed' ELSE 'pending' END)
     AND (@event::uuid IS NULL OR o.event_id = @event)
     AND (@type::text IS NULL OR e.type = @type)
     AND (@tenant::text IS NULL OR e.tenant = @tenant)
     AND (@since::timestamptz IS NULL OR e.recorded_at >= @since)
     AND (@until::timestamptz IS NULL OR e.recorded_at < @until)
     AND (@everywhere::boolean OR o.target_id IN (SELECT id FROM wanted))
   ORDER BY o.id DESC
   LIMIT @limit)
  UNION ALL
  (SELECT s.id, s.event_id, s.target_id, s.status::text,
          s.attempts, s.max_attempts, s.sending, s.completed_at, s.due_at, s.owed_since,
          0, '-infinity', '-infinity', s.completed_at, true
   FROM eventsvc.settled s
   JOIN eventsvc.events e ON e.id = s.event_id
   WHERE (@id::uuid IS NULL OR s.id = @id)
     AND (@below::uuid IS NULL OR s.id < @below)
     AND (@status::text IS NULL OR s.status::text = @status)
     AND (@event::uuid IS NULL OR s.event_id = @event)
     AND (@type::text IS NULL OR e.type = @type)
     AND (@tenant::text IS NULL OR e.tenant = @tenant)
     AND (@since::timestamptz IS NULL OR e.recorded_at >= @since)
     AND (@until::timestamptz IS NULL OR e.recorded_at < @until)
     AND (@everywhere::boolean OR s.target_id IN (SELECT id FROM wanted))
   ORDER BY s.id DESC
   LIMIT @limit)
  ORDER BY id DESC
  LIMIT @limit
)
SELECT d.id, d.event_id, e.type, r.key AS receiver, t.name AS target, l.name AS lane, d.status,
       d.attempts, d.max_attempts, d.sending, d.available_at,
       nullif(d.due_at, '-infinity') AS due_at, d.owed_since,
       coalesce(w.name, '') AS claimed_by, nullif(d.claimed_at, '-infinity') AS claimed_at, nullif(d.lease_until, '-infinity') AS lease_until,
       d.completed_at,
       x.number AS last_number, coalesce(x.outcome::text, '') AS last_outcome, coalesce(x.class, '') AS last_class, coalesce(x.error, '') AS last_error,
       t.paused_at IS NOT NULL OR t.disabled_at IS NOT NULL OR r.paused_at IS NOT NULL OR l.paused_at IS NOT NULL AS paused,
       coalesce(t.declaration ->> 'tenant', r.declaration ->> 'tenant', '') AS tenant
FROM d
JOIN eventsvc.events e    ON e.id = d.event_id
JOIN eventsvc.targets t   ON t.id = d.target_id
JOIN eventsvc.receivers r ON r.id = t.receiver_id
JOIN eventsvc.lanes l     ON l.id = r.lane_id
LEFT JOIN eventsvc.workers w ON w.id = abs(d.claimed_by)
LEFT JOIN LATERAL (
  SELECT a.number, a.outcome, a.class, a.error
  FROM eventsvc.attempts a
  WHERE a.event_id = d.event_id AND a.delivery_id = d.id
    -- What is left of a life before it was owed anew is not the last of this one.
    AND (d.failed OR a.outcome = 'not_yet' AND d.due_at > '-infinity' OR a.outcome = 'unknown' AND a.started_at >= d.owed_since)
  ORDER BY a.started_at DESC
  LIMIT 1) x ON true
ORDER BY d.id DESC;
