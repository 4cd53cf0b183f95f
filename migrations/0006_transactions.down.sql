-- Takes transactions away. What is prepared would be lost with them, so it must be decided before.
SET LOCAL lock_timeout = '3s';
LOCK TABLE eventsvc.transactions IN ACCESS EXCLUSIVE MODE;
DO $$
DECLARE
  held constant bigint := (SELECT count(*) FROM eventsvc.transactions WHERE state IN ('prepared', 'in_doubt'));
BEGIN
  IF held > 0 THEN
    RAISE EXCEPTION '% transactions are prepared or in doubt; commit them or roll them back first', held;
  END IF;
END $$;
DROP TABLE eventsvc.transactions;
DROP TYPE eventsvc.transaction_state;
