-- access: the keys of these hashes that open just now, each by one probe of the index, and whether it is time to note that they are used. No row for a hash: no such key, or it was revoked, or its time is over.
SELECT k.hash, k.id, k.public_id, k.producer_id, p.owner, k.name, k.scopes, coalesce(p.tenant, '') AS tenant, coalesce(k.rate, 0) AS rate, coalesce(k.burst, 0) AS burst,
       k.last_used_at IS NULL OR k.last_used_at < now() - @coarse::interval AS stale
FROM unnest(@hashes::bytea[]) AS u(hash)
CROSS JOIN LATERAL (  -- any other form may scan
  SELECT * FROM eventsvc.api_keys k WHERE k.hash = u.hash LIMIT 1) k
JOIN eventsvc.producers p ON p.id = k.producer_id
WHERE k.revoked_at IS NULL
  AND k.expires_at > now();
