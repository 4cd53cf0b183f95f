-- access: note changes. No rows.
INSERT INTO eventsvc.audit (id, key_id, actor, action, object, before, after)
SELECT u.id, @key, @actor, u.action, u.object, u.before::jsonb, u.after::jsonb
FROM unnest(@ids::uuid[], @actions::text[], @objects::text[], @befores::text[], @afters::text[]) AS u(id, action, object, before, after);
