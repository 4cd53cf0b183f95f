-- ledger: count a target's deaths anew. No rows: it never failed.
UPDATE eventsvc.target_health SET dead = 0 WHERE target_id = @target;
