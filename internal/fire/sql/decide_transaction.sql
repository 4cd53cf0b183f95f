-- fire: decide a locked transaction. What it held is gone with that: as events, or for good.
UPDATE eventsvc.transactions
SET state = @state::eventsvc.transaction_state, decided_at = now(), events = @events::uuid[], owes = @owes, held = NULL, check_at = NULL
WHERE id = @id
RETURNING decided_at;
