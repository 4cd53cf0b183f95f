-- ledger: how many deliveries ended since a moment, by how, and how many are still owed. No rows: none did and none is. For tests.
SELECT status::text AS status, count(*) AS n
FROM eventsvc.settled
WHERE completed_at >= @since
GROUP BY status
UNION ALL
SELECT 'owed', count(*)
FROM eventsvc.owed
HAVING count(*) > 0;
