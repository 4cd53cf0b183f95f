-- ledger: owe an event's ended deliveries to given targets again, with their whole budget. One that had succeeded is a new sending: a new webhook-id, in the format of today. The event is locked. Answers whom they are owed to.
WITH back AS (
  DELETE FROM eventsvc.settled s
  USING unnest(@targets::integer[], @formats::smallint[]) AS u(target_id, format)
  WHERE s.event_id = @event AND s.target_id = u.target_id
  RETURNING s.id, s.event_id, s.target_id, s.max_attempts, s.status,
            CASE WHEN s.status = 'succeeded' THEN s.sending + 1 ELSE s.sending END AS sending,
            CASE WHEN s.status = 'succeeded' THEN u.format ELSE s.format END AS format
)
INSERT INTO eventsvc.owed (id, event_id, target_id, max_attempts, sending, format, available_at, owed_since)
SELECT id, event_id, target_id, max_attempts, sending, format, now(), now()
FROM back
RETURNING target_id;
