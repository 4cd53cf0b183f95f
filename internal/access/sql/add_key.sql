-- access: add an API key. Always one row.
WITH p AS (
  INSERT INTO eventsvc.producers (owner, tenant)
  VALUES (@owner, @tenant)
  ON CONFLICT (owner, tenant) DO UPDATE SET owner = excluded.owner  -- for its number to come back
  RETURNING id, owner, coalesce(tenant, '') AS tenant
), k AS (
  INSERT INTO eventsvc.api_keys (public_id, name, producer_id, hash, prefix, scopes, rate, burst, expires_at)
  SELECT @id, @name, p.id, @hash, @prefix, @scopes, @rate, @burst, coalesce(@expires::timestamptz, 'infinity')
  FROM p
  RETURNING *
)
SELECT k.id, k.public_id, k.producer_id, p.owner, k.name, k.prefix, k.scopes, p.tenant, coalesce(k.rate, 0) AS rate, coalesce(k.burst, 0) AS burst,
       k.created_at, nullif(k.expires_at, 'infinity') AS expires_at, k.revoked_at, k.last_used_at
FROM k, p;
