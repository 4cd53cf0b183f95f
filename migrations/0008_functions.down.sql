-- Takes the verdicts of function receivers away. Functions that call them fail.
SET LOCAL lock_timeout = '3s';
DROP FUNCTION eventsvc.not_yet(timestamptz);
DROP FUNCTION eventsvc.retry_after(integer, boolean);
DROP FUNCTION eventsvc.permanent(text);
