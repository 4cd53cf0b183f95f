-- fire: lock one event against a prune, a replay or a requeue of it. No rows: there is none of that id.
SELECT e.type, coalesce(e.tenant, ''), e.suppressed IS NOT NULL, now() - e.recorded_at, (SELECT revision FROM eventsvc.registry)
FROM eventsvc.events e
WHERE e.id = @id
FOR NO KEY UPDATE OF e;
