-- fire: the stored secrets of checks of transactions that are not decided, locked.
SELECT id, check_secret FROM eventsvc.transactions WHERE state IN ('prepared', 'in_doubt') AND check_secret IS NOT NULL ORDER BY id FOR UPDATE;
