-- Takes firing in SQL away. What is not matched yet would be owed to nobody, so a relay must
-- have matched it before.
SET LOCAL lock_timeout = '3s';
LOCK TABLE eventsvc.unmatched IN ACCESS EXCLUSIVE MODE;
DO $$
DECLARE
  waiting constant bigint := (SELECT count(*) FROM eventsvc.unmatched WHERE refused IS NULL);
BEGIN
  IF waiting > 0 THEN
    RAISE EXCEPTION '% events that were fired in SQL are not matched yet; have a relay run until they are', waiting;
  END IF;
END $$;
DROP FUNCTION eventsvc.cancel(text, text);
DROP FUNCTION eventsvc.withdraw(uuid[]);
DROP FUNCTION eventsvc.fire(text, jsonb, text, text, text, text, timestamptz, jsonb, text, text, jsonb, text, text);
DROP FUNCTION eventsvc.fire(text, json, text, text, text, text, timestamptz, jsonb, text, text, jsonb, text, text);
DROP FUNCTION eventsvc.fire(text, text, text, text, text, text, timestamptz, jsonb, text, text, jsonb, text, text);
DROP FUNCTION eventsvc.ask(text, text, jsonb, text);
DROP FUNCTION eventsvc.inline_receivers(text, text);
DROP INDEX eventsvc.receivers_inline;
DROP FUNCTION eventsvc.allow(name);
DROP FUNCTION eventsvc.sql_producer();
DROP FUNCTION eventsvc.same_json(text, text);
DROP FUNCTION eventsvc.check_text(text, text);
DROP FUNCTION eventsvc.refuse(text, text);
DROP FUNCTION eventsvc.new_id();
DROP FUNCTION eventsvc.untypeid(text, text);
DROP FUNCTION eventsvc.typeid(text, uuid);
DROP TABLE eventsvc.unmatched;
