-- access: add to a note of a call on many what it came to. No rows.
UPDATE eventsvc.audit
SET after = @after
WHERE id = @id;
