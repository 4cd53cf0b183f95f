-- function: end the session that still runs a call which nobody waits for. No rows: it has ended by itself.
SELECT pg_terminate_backend(pid)
FROM pg_stat_activity
WHERE pid = @pid
  AND xact_start = @started;  -- a number is given out again; a transaction's beginning is not
