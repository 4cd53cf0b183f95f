-- function: bound an attempt's transaction, take its role, and read what its claim does not hold of its event. One row.
-- No row of the event is read for a test, of which nothing is stored.
SELECT pg_backend_pid(), now(), e.actor, e.metadata,
       set_config('statement_timeout', @statement_timeout, true),
       set_config('lock_timeout', @lock_timeout, true),
       set_config('idle_in_transaction_session_timeout', @idle_timeout, true),
       set_config('client_min_messages', 'error', true),
       CASE WHEN @role::text <> '' THEN set_config('role', @role, true) END
FROM (VALUES (1)) AS one(row)
LEFT JOIN eventsvc.events e ON e.id = @event;
