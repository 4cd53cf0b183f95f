-- Takes the declared types away; events keep what was copied onto them.
SET LOCAL lock_timeout = '3s';
DROP TABLE eventsvc.event_types;
