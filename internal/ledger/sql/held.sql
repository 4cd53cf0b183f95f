-- ledger: a claim in force, whose it is, and for how long it has been held. No rows: it is lost.
SELECT h.id, h.event_id, h.target_id, h.attempts, h.max_attempts, h.sending, h.format, h.claimed_at, h.lease_until,
       h.available_at, nullif(h.due_at, '-infinity') AS due_at, h.owed_since,
       e.type, e.data, e.recorded_at, e.occurred_at, coalesce(e.tenant, ''), coalesce(e.subject, ''), coalesce(e.source, ''),
       coalesce(e.correlation_id, ''), coalesce(e.causation_id, ''), coalesce(e.traceparent, ''),
       (SELECT revision FROM eventsvc.registry) AS revision, h.claimed_by, now() - h.claimed_at AS held
FROM eventsvc.owed h
JOIN eventsvc.workers w ON w.id = h.claimed_by
CROSS JOIN LATERAL (SELECT * FROM eventsvc.events WHERE id = h.event_id OFFSET 0) e  -- a fence, as in claim.sql
WHERE h.id = @id AND h.claimed_at = @claimed AND w.name = @worker;
