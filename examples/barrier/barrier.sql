-- The barrier stands in YOUR database, beside your tables. It decides, for each transaction
-- that you prepared with eventsvc, whether your own change was committed: for good, and
-- whoever asks first.
--
-- Your change inserts (id, 'committed') in its own transaction. Whoever asks inserts
-- (id, 'rolled_back') unless there is a row. The primary key lets one of them through:
-- a change that comes after the answer fails, and takes everything of its transaction with
-- it; an answer that comes after the change reads 'committed'; one that comes while the
-- change is under way waits for it, and says "later" when it has waited long enough.
CREATE TABLE eventsvc_barrier (
  transaction_id text        PRIMARY KEY,
  outcome        text        NOT NULL CHECK (outcome IN ('committed', 'rolled_back')),
  decided_at     timestamptz NOT NULL DEFAULT now()
);

-- The status to answer a check with: 200 committed, 409 rolled back, 425 still under way.
CREATE FUNCTION eventsvc_barrier_ask(id text) RETURNS integer
LANGUAGE plpgsql AS $$
BEGIN
  SET LOCAL lock_timeout = '2s';
  INSERT INTO eventsvc_barrier (transaction_id, outcome) VALUES (id, 'rolled_back') ON CONFLICT DO NOTHING;
  RETURN (SELECT CASE outcome WHEN 'committed' THEN 200 ELSE 409 END FROM eventsvc_barrier WHERE transaction_id = id);
EXCEPTION WHEN lock_not_available THEN
  RETURN 425;
END $$;
