-- ledger: every attempt of a delivery, oldest first. No rows: none was made yet.
SELECT a.number, a.started_at, a.duration_ms, a.outcome::text AS outcome, coalesce(a.class, '') AS class,
       a.http_status, coalesce(a.error, '') AS error, coalesce(w.name, '') AS worker, a.evidence
FROM eventsvc.attempts a
LEFT JOIN eventsvc.workers w ON w.id = a.worker
WHERE a.event_id = @event
  AND a.delivery_id = @delivery
ORDER BY a.started_at, a.number;
