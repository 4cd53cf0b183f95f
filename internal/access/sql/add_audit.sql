-- access: note a change. No rows.
INSERT INTO eventsvc.audit (id, key_id, actor, action, object, before, after)
VALUES (@id, @key, @actor, @action, @object, @before, @after);
