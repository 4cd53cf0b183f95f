-- registry: every stored secret, in order, for sealing anew. No rows: there is none.
SELECT id, target_id, sealed FROM eventsvc.secrets ORDER BY id FOR UPDATE;
