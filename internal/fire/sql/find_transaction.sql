-- fire: one transaction, by its id or by the key that was spent on it. No rows: there is none.
SELECT t.id, t.producer, t.key, coalesce(t.tenant, ''), t.prepared, t.state, t.created_at, t.decided_at, t.events, t.owes, t.held,
       coalesce(t.check_url, ''), t.check_secret, t.checks, t.check_at, coalesce(t.checked, ''), 0::bigint
FROM eventsvc.transactions t
WHERE t.id = coalesce(@id::uuid, (SELECT k.event_id FROM eventsvc.fire_keys k WHERE k.producer = @producer AND k.key = @key));
