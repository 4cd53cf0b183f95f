-- access: notes of changes, newest first, below an id. No rows: none is left.
SELECT id, at, key_id, actor, action, object, before, after
FROM eventsvc.audit
WHERE (@below::uuid IS NULL OR id < @below)
ORDER BY id DESC
LIMIT @limit;
