-- access: note that keys are used; those that somebody else writes just now are passed over. No rows.
UPDATE eventsvc.api_keys k
SET last_used_at = now()
FROM (SELECT id FROM eventsvc.api_keys WHERE id = ANY (@ids::integer[]) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED) u
WHERE k.id = u.id;
