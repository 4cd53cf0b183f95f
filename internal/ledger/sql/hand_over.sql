-- ledger: offer a claim in force to whoever brings its proof, for a lease from now; until it is taken its worker's number stands below zero. No rows: the claim is lost.
UPDATE eventsvc.owed h
SET claimed_by = -h.claimed_by, lease_until = now() + @lease::interval, claims = h.claims - 1  -- no attempt is lost with it
WHERE h.id = @id AND h.claimed_by = @worker::integer AND h.claimed_at = @claimed
RETURNING h.id;
