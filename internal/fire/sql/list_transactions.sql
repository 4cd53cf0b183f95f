-- fire: transactions below an id, newest first.
SELECT t.id, t.producer, t.key, coalesce(t.tenant, ''), t.prepared, t.state, t.created_at, t.decided_at, t.events, NULL::bytea, NULL::bytea,
       coalesce(t.check_url, ''), NULL::bytea, t.checks, t.check_at, coalesce(t.checked, ''), 0::bigint
FROM eventsvc.transactions t
WHERE (@below::uuid IS NULL OR t.id < @below)
  AND (@state::text IS NULL OR t.state = @state::eventsvc.transaction_state)
  AND (@tenant::text IS NULL OR t.tenant = @tenant)
  AND (@older::interval IS NULL OR t.created_at < now() - @older::interval)
ORDER BY t.id DESC
LIMIT @limit;
