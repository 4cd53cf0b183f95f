-- ledger: lease deliveries that were just owed, by their ids. One that is missing was tried before, or is held, paused, not due yet, or no longer owed.
WITH c AS MATERIALIZED (
  SELECT h.id, q.lease
  FROM unnest(@ids::uuid[], @leases::interval[]) AS q(id, lease)
  JOIN eventsvc.owed h      ON h.id = q.id
  JOIN eventsvc.targets t   ON t.id = h.target_id   AND t.paused_at IS NULL AND t.disabled_at IS NULL
  JOIN eventsvc.receivers r ON r.id = t.receiver_id AND r.paused_at IS NULL
  JOIN eventsvc.lanes l     ON l.id = r.lane_id     AND l.paused_at IS NULL
  WHERE h.claimed_by = 0 AND h.claims = 0 AND h.attempts = 0 AND NOT h.failed
    AND h.available_at <= now()
  FOR UPDATE OF h SKIP LOCKED
),
u AS (
  UPDATE eventsvc.owed h
  SET claimed_by = @worker, claimed_at = now(), lease_until = now() + c.lease, claims = h.claims + 1
  FROM c
  WHERE h.id = c.id
  RETURNING h.id, h.event_id, h.target_id, h.attempts, h.max_attempts, h.sending, h.format, h.claimed_at, h.lease_until,
            h.available_at, h.due_at, h.owed_since
)
SELECT u.id, u.event_id, u.target_id, u.attempts, u.max_attempts, u.sending, u.format, u.claimed_at, u.lease_until,
       u.available_at, nullif(u.due_at, '-infinity') AS due_at, u.owed_since,
       e.type, e.data, e.recorded_at, e.occurred_at, coalesce(e.tenant, ''), coalesce(e.subject, ''), coalesce(e.source, ''),
       coalesce(e.correlation_id, ''), coalesce(e.causation_id, ''), coalesce(e.traceparent, ''),
       (SELECT revision FROM eventsvc.registry) AS revision
FROM u
CROSS JOIN LATERAL (  -- a fence, as in claim.sql
  SELECT * FROM eventsvc.events WHERE id = u.event_id OFFSET 0) e;
