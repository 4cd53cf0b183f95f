-- access: one API key, for a change of it. No rows: there is none of that id.
SELECT k.id, k.public_id, k.producer_id, p.owner, k.name, k.prefix, k.scopes, coalesce(p.tenant, '') AS tenant, coalesce(k.rate, 0) AS rate, coalesce(k.burst, 0) AS burst,
       k.created_at, nullif(k.expires_at, 'infinity') AS expires_at, k.revoked_at, k.last_used_at
FROM eventsvc.api_keys k
JOIN eventsvc.producers p ON p.id = k.producer_id
WHERE k.public_id = @id
FOR NO KEY UPDATE OF k;
