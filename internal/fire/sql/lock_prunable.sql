-- fire: lock those of these events that nobody else holds, in order. The next statement sees what happened to them until now. No rows: all are held or gone.
SELECT id FROM eventsvc.events WHERE id = ANY (@ids::uuid[]) ORDER BY id FOR UPDATE SKIP LOCKED;
