-- ledger: deliveries of an event that are owed and of which no attempt was recorded, out of some. No rows: each was tried, or has ended.
SELECT h.id
FROM unnest(@ids::uuid[]) AS q(id)
JOIN eventsvc.owed h ON h.id = q.id
WHERE h.attempts = 0 AND NOT h.failed
  AND NOT EXISTS (SELECT 1 FROM eventsvc.attempts a WHERE a.event_id = @event AND a.delivery_id = h.id);
