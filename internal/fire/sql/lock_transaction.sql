-- fire: lock a transaction to decide it. No rows: there is none of that id.
SELECT t.id, t.producer, t.key, coalesce(t.tenant, ''), t.prepared, t.state, t.created_at, t.decided_at, t.events, t.owes, t.held,
       coalesce(t.check_url, ''), t.check_secret, t.checks, t.check_at, coalesce(t.checked, ''), (SELECT revision FROM eventsvc.registry)
FROM eventsvc.transactions t
WHERE t.id = @id
FOR UPDATE OF t;
