-- ledger: how many deliveries are owed for events of each tenant. No row for a tenant: none is.
SELECT e.tenant, count(*)::integer AS n
FROM eventsvc.owed o
JOIN eventsvc.events e ON e.id = o.event_id
WHERE e.tenant IS NOT NULL
GROUP BY e.tenant;
