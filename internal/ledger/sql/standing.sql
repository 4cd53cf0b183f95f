-- ledger: where deliveries stand, by their ids. No row for an id: there is no such delivery, or it is of an event of another tenant.
SELECT o.id, o.event_id, CASE WHEN o.claimed_by <> 0 THEN 'claimed' WHEN o.failed THEN 'failed' ELSE 'pending' END AS status
FROM eventsvc.owed o
WHERE o.id = ANY (@ids::uuid[])
  AND (@tenant::text IS NULL OR EXISTS (SELECT 1 FROM eventsvc.events e WHERE e.id = o.event_id AND e.tenant = @tenant))
UNION ALL
SELECT s.id, s.event_id, s.status::text
FROM eventsvc.settled s
WHERE s.id = ANY (@ids::uuid[])
  AND (@tenant::text IS NULL OR EXISTS (SELECT 1 FROM eventsvc.events e WHERE e.id = s.event_id AND e.tenant = @tenant));
