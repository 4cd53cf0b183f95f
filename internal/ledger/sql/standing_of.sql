-- ledger: where the deliveries of an event stand, by target. No rows: it was owed to nobody.
SELECT o.target_id, CASE WHEN o.claimed_by <> 0 THEN 'claimed' WHEN o.failed THEN 'failed' ELSE 'pending' END AS status
FROM eventsvc.owed o
WHERE o.event_id = @event
UNION ALL
SELECT s.target_id, s.status::text
FROM eventsvc.settled s
WHERE s.event_id = @event;
