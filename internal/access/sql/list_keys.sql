-- access: API keys, newest first, below an id, those that were revoked among them. No rows: none is left.
SELECT id, public_id, name, prefix, scopes, coalesce(tenant, '') AS tenant, coalesce(rate, 0) AS rate, coalesce(burst, 0) AS burst,
       created_at, nullif(expires_at, 'infinity') AS expires_at, revoked_at, last_used_at
FROM eventsvc.api_keys
WHERE (@below::uuid IS NULL OR public_id < @below)
ORDER BY public_id DESC
LIMIT @limit;
