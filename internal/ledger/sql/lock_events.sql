-- ledger: lock events in the order of their ids, as everything does that ends or reopens what they are owed to. Answers those that are still there.
SELECT id FROM eventsvc.events WHERE id = ANY (@events::uuid[]) ORDER BY id FOR NO KEY UPDATE;
