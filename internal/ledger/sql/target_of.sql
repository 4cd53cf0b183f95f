-- ledger: whom an owed delivery is for, and the registry's revision. No rows: it is not owed.
SELECT o.target_id, (SELECT revision FROM eventsvc.registry) FROM eventsvc.owed o WHERE o.id = @id;
