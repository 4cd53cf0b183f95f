-- ledger: what is owed, claimed or not, to receivers and targets that are gone, by receiver. No rows: nothing is.
SELECT r.key AS receiver, count(*) AS owed
FROM eventsvc.owed o
JOIN eventsvc.targets t   ON t.id = o.target_id
JOIN eventsvc.receivers r ON r.id = t.receiver_id
WHERE t.deleted_at IS NOT NULL OR r.deleted_at IS NOT NULL
GROUP BY r.key
ORDER BY r.key;
