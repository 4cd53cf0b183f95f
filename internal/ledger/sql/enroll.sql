-- ledger: a number for a worker process, new at each start. Always one row.
INSERT INTO eventsvc.workers (name) VALUES (@name) RETURNING id;
