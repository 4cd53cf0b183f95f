-- ledger: a number for a worker process, new at each start. It serves no lane until it reports. Always one row.
INSERT INTO eventsvc.workers (name, lanes) VALUES (@name, '{}') RETURNING id;
