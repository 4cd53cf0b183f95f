-- ledger: receivers with deliveries that have acknowledged nothing for so long, or never, the quietest first. No rows: none.
SELECT r.key AS receiver, max(s.succeeded_at) AS last_success
FROM eventsvc.receivers r
JOIN eventsvc.targets t ON t.receiver_id = r.id
LEFT JOIN eventsvc.last_success s ON s.target_id = t.id
WHERE r.deleted_at IS NULL AND coalesce(r.declaration ->> 'mode', 'durable') = 'durable'
GROUP BY r.key
HAVING coalesce(max(s.succeeded_at), '-infinity') < now() - @within::interval
ORDER BY max(s.succeeded_at) NULLS FIRST, r.key
LIMIT @limit;
