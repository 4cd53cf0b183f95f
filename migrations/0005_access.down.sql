-- Takes API keys and the audit away. Events keep the number of the producer that fired them.
SET LOCAL lock_timeout = '3s';
DROP TABLE eventsvc.audit;
DROP TABLE eventsvc.api_keys;
DROP TABLE eventsvc.producers;
