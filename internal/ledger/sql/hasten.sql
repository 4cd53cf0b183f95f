-- ledger: make due what waits for its backoff, and what is scheduled up to a moment, but for what was deferred since another moment. For tests.
UPDATE eventsvc.owed o
SET available_at = now()
WHERE o.claimed_by = 0
  AND o.available_at > now()
  AND o.due_at <= greatest(@until::timestamptz, now())
  AND NOT EXISTS (
    SELECT 1
    FROM eventsvc.attempts a
    WHERE a.event_id = o.event_id AND a.delivery_id = o.id AND a.outcome = 'deferred' AND a.started_at >= @since
  );
