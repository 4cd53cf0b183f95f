-- access: revoke an API key; one that was revoked before stays as it is. Answers when. No rows: there is none of that id.
UPDATE eventsvc.api_keys
SET revoked_at = coalesce(revoked_at, now())
WHERE public_id = @id
RETURNING revoked_at;
