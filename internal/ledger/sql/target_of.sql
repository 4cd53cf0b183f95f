-- ledger: whom an owed delivery is for. No rows: it is not owed.
SELECT target_id FROM eventsvc.owed WHERE id = @id;
