-- Takes API keys and the audit away. Events keep the number of the key they were fired with.
SET LOCAL lock_timeout = '3s';
DROP TABLE eventsvc.audit;
DROP TABLE eventsvc.api_keys;
