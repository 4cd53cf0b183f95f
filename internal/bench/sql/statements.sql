-- bench: what this database's statements have cost so far: how many there were, and the milliseconds of claims and of records.
SELECT coalesce(sum(calls), 0)::float8,
       coalesce(sum(total_exec_time) FILTER (WHERE query LIKE '-- ledger: lease %'), 0),
       coalesce(sum(total_exec_time) FILTER (WHERE query LIKE '-- ledger: settle claims%'), 0)
FROM pg_stat_statements
WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database());
