-- access: one API key, for a change of it. No rows: there is none of that id.
SELECT id, public_id, name, prefix, scopes, coalesce(tenant, '') AS tenant, coalesce(rate, 0) AS rate, coalesce(burst, 0) AS burst,
       created_at, nullif(expires_at, 'infinity') AS expires_at, revoked_at, last_used_at
FROM eventsvc.api_keys
WHERE public_id = @id
FOR NO KEY UPDATE;
