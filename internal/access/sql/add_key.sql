-- access: add an API key. Always one row.
INSERT INTO eventsvc.api_keys (public_id, name, hash, prefix, scopes, tenant, rate, burst, expires_at)
VALUES (@id, @name, @hash, @prefix, @scopes, @tenant, @rate, @burst, coalesce(@expires::timestamptz, 'infinity'))
RETURNING id, public_id, name, prefix, scopes, coalesce(tenant, '') AS tenant, coalesce(rate, 0) AS rate, coalesce(burst, 0) AS burst,
          created_at, nullif(expires_at, 'infinity') AS expires_at, revoked_at, last_used_at;
