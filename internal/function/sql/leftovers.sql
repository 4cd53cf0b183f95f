-- function: what a call leaves on its connection past the end of its transaction; session locks are given back. One row.
SELECT pg_advisory_unlock_all()::text, (SELECT count(*) FROM pg_prepared_statements WHERE from_sql);
