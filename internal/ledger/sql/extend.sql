-- ledger: have the lease of a claim in force end so long from now. No rows: the claim is lost.
UPDATE eventsvc.owed h
SET lease_until = now() + @lease::interval
FROM eventsvc.workers w
WHERE w.id = h.claimed_by
  AND h.id = @id AND h.claimed_at = @claimed AND w.name = @worker
RETURNING h.lease_until;
