-- Takes the whole schema away, with every event in it.
SET LOCAL lock_timeout = '3s';
DROP SCHEMA eventsvc CASCADE;
