-- ledger: hand claims back as if they had never been: nothing is spent, and the rows keep their place. Answers the ids released.
UPDATE eventsvc.owed h
SET claimed_by = 0, claimed_at = '-infinity', lease_until = '-infinity', claims = h.claims - 1
FROM unnest(@ids::uuid[], @claimed::timestamptz[]) AS a(id, claimed_at)
WHERE h.id = a.id AND h.claimed_by = @worker AND h.claimed_at = a.claimed_at
RETURNING h.id;
