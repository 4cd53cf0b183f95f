-- ledger: how targets fare. No row for a target: it never failed.
SELECT target_id, dead FROM eventsvc.target_health WHERE target_id = ANY (@targets::integer[]);
