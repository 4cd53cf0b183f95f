-- fire: take transactions whose callers are to be asked now, until the lease is over. The number of a check is its fence.
UPDATE eventsvc.transactions t
SET checks = t.checks + 1, check_at = now() + @lease::interval
FROM (
  SELECT id FROM eventsvc.transactions WHERE state = 'prepared' AND check_at <= now() ORDER BY check_at LIMIT @n FOR UPDATE SKIP LOCKED
) due
WHERE t.id = due.id
RETURNING t.id, t.key, t.created_at, t.check_url, t.check_secret, t.checks;
