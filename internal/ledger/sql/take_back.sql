-- ledger: end an offer that could not be sent, as if it had never been claimed. No rows: it was taken, or its lease ended.
UPDATE eventsvc.owed h
SET claimed_by = 0, claimed_at = '-infinity', lease_until = '-infinity'
WHERE h.id = @id AND h.claimed_by = -@worker::integer AND h.claimed_at = @claimed
RETURNING h.id;
