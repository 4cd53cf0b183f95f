-- ledger: owe ended deliveries again, with their whole budget and under the same webhook-id. Their events are locked, in order. Answers whom they are owed to; one that is missing has not ended so, or its receiver is gone.
WITH back AS (
  DELETE FROM eventsvc.settled s
  USING unnest(@events::uuid[], @ids::uuid[]) AS u(event_id, id), eventsvc.targets t, eventsvc.receivers r
  WHERE s.event_id = u.event_id AND s.id = u.id
    AND s.status IN ('dead', 'orphaned')
    AND t.id = s.target_id AND t.deleted_at IS NULL
    AND r.id = t.receiver_id AND r.deleted_at IS NULL
  RETURNING s.id, s.event_id, s.target_id, s.max_attempts, s.sending, s.format
)
INSERT INTO eventsvc.owed (id, event_id, target_id, max_attempts, sending, format, available_at, owed_since)
SELECT id, event_id, target_id, max_attempts, sending, format, now(), now()
FROM back
RETURNING id, target_id;
