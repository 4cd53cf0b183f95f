-- ledger: lease up to a quota of due rows of each target, oldest first. No rows: nothing of theirs is due, or it is held or paused.
-- Unclaimed rows (lease_until = -infinity) and lapsed leases meet the same predicate.
WITH c AS MATERIALIZED (  -- a fence: without it a nested loop may run the LIMIT anew for each row and claim more
  SELECT x.id, x.event_id, x.claimed_by AS was_by, x.claimed_at AS was_at, x.attempts, q.lease,
         x.claimed_by > 0 AND x.claims >= @max_claims::integer AS poison
  FROM unnest(@targets::integer[], @quotas::integer[], @floors::timestamptz[], @floor_ids::uuid[], @leases::interval[])
    AS q(target_id, n, floor, floor_id, lease)
  -- Read here, so that no claim that begins after a pause has committed takes a row.
  JOIN eventsvc.targets t   ON t.id = q.target_id   AND t.paused_at IS NULL AND t.disabled_at IS NULL
  JOIN eventsvc.receivers r ON r.id = t.receiver_id AND r.paused_at IS NULL
  JOIN eventsvc.lanes l     ON l.id = r.lane_id     AND (l.paused_at IS NULL OR r.deleted_at IS NOT NULL OR t.deleted_at IS NOT NULL)  -- an orphan is no lane's
  CROSS JOIN LATERAL (
    SELECT h.id, h.event_id, h.claimed_by, h.claimed_at, h.attempts, h.claims
    FROM eventsvc.owed h
    WHERE h.target_id = q.target_id
      AND h.lease_until < now()
      AND h.available_at <= now()
      AND (h.available_at, h.id) >= (q.floor, q.floor_id)
    ORDER BY h.available_at, h.id
    LIMIT q.n
    FOR UPDATE SKIP LOCKED) x
),
-- A lease that lapsed is an attempt of which nobody knows how far it came (P6); of one that
-- was handed over and taken by no worker (claimed_by below zero) it is known that none began.
lost AS (
  INSERT INTO eventsvc.attempts (event_id, delivery_id, number, outcome, worker, started_at, class, error)
  SELECT event_id, id, attempts + 1, 'unknown', was_by, was_at, CASE WHEN poison THEN 'poison' END,
         'the worker was lost before it could record what came of this attempt'
  FROM c
  WHERE was_by > 0
),
-- A row under which that many workers were lost is not given to another.
poisoned AS (
  DELETE FROM eventsvc.owed h
  USING c
  WHERE c.poison AND h.id = c.id
  RETURNING h.event_id, h.target_id, h.id, h.attempts, h.max_attempts, h.sending, h.format, h.owed_since, h.due_at
),
ended AS (
  INSERT INTO eventsvc.settled (event_id, target_id, id, status, attempts, max_attempts, sending, format, owed_since, due_at)
  SELECT event_id, target_id, id, 'dead', attempts, max_attempts, sending, format, owed_since, due_at
  FROM poisoned
),
u AS (
  UPDATE eventsvc.owed h
  SET claimed_by = @worker, claimed_at = now(), lease_until = now() + c.lease, claims = h.claims + 1
  FROM c
  WHERE NOT c.poison AND h.id = c.id
  RETURNING h.id, h.event_id, h.target_id, h.attempts, h.max_attempts, h.sending, h.format, h.claimed_at, h.lease_until,
            h.available_at, h.due_at, h.owed_since
)
SELECT u.id, u.event_id, u.target_id, u.attempts, u.max_attempts, u.sending, u.format, u.claimed_at, u.lease_until,
       u.available_at, nullif(u.due_at, '-infinity') AS due_at, u.owed_since,
       e.type, e.data, e.recorded_at, e.occurred_at, coalesce(e.tenant, ''), coalesce(e.subject, ''), coalesce(e.source, ''),
       coalesce(e.correlation_id, ''), coalesce(e.causation_id, ''), coalesce(e.traceparent, ''),
       (SELECT revision FROM eventsvc.registry) AS revision
FROM u
CROSS JOIN LATERAL (  -- a fence: a plan made while there were no events may read all of them for each row
  SELECT * FROM eventsvc.events WHERE id = u.event_id OFFSET 0) e;
