SET LOCAL lock_timeout = '3s';
DROP TABLE eventsvc.transactions;
DROP TYPE eventsvc.transaction_state;
