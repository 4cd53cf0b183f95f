-- fire: keep what a check came to, and when the next is due; without a next one the transaction is in doubt. No rows: another has asked meanwhile, or it is decided.
UPDATE eventsvc.transactions
SET checked = @checked, check_at = now() + @again::interval,
    state = CASE WHEN @again::interval IS NULL THEN 'in_doubt'::eventsvc.transaction_state ELSE state END
WHERE id = @id AND checks = @checks AND state = 'prepared'
RETURNING state;
