-- ledger: how much targets are still owed. Always one row.
SELECT count(*) FROM eventsvc.owed WHERE target_id = ANY (@targets::integer[]);
