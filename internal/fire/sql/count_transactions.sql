-- fire: how many transactions are not decided, by state, and the age of the oldest.
SELECT count(*) FILTER (WHERE state = 'prepared'), count(*) FILTER (WHERE state = 'in_doubt'),
       coalesce(extract(epoch FROM now() - min(created_at)), 0)::float8
FROM eventsvc.transactions
WHERE state IN ('prepared', 'in_doubt');
