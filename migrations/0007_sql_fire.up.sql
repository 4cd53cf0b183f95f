-- Firing and cancelling in SQL, inside the caller's own transaction.
SET LOCAL lock_timeout = '3s';

-- Events that were fired in SQL and are not matched yet: a relay does that once their
-- transaction has committed, with the very code that matches what is POSTed. One that breaks
-- a rule that only that code knows stays here, refused, and is owed to nobody until a person
-- replays it. Written by fire, and by eventsvc.fire().
CREATE TABLE eventsvc.unmatched (
  event_id uuid NOT NULL PRIMARY KEY,
  refused  text                                    -- why nothing is owed for it
);
CREATE INDEX unmatched_waiting ON eventsvc.unmatched (event_id) WHERE refused IS NULL;

-- An id as the API writes it (TypeID): the prefix, an underscore, and the number in 26
-- characters of Crockford's base32.
CREATE FUNCTION eventsvc.typeid(prefix text, id uuid) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  alphabet constant text := '0123456789abcdefghjkmnpqrstvwxyz';
  bits bit(130) := B'00' || ('x' || replace(id::text, '-', ''))::bit(128);
  made text := prefix || '_';
BEGIN
  FOR i IN 0..25 LOOP
    made := made || substr(alphabet, substring(bits FROM i * 5 + 1 FOR 5)::integer + 1, 1);
  END LOOP;
  RETURN made;
END $$;

-- The uuid in an id of the API, or null where it is none of that prefix.
CREATE FUNCTION eventsvc.untypeid(prefix text, id text) RETURNS uuid
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  alphabet constant text := '0123456789abcdefghjkmnpqrstvwxyz';
  bits bit varying := B'';
  hex text := '';
BEGIN
  IF left(id, length(prefix) + 1) <> prefix || '_' OR substr(id, length(prefix) + 2) !~ '^[0-7][0-9a-hjkmnp-tv-z]{25}$' THEN
    RETURN NULL;
  END IF;
  FOR i IN 1..26 LOOP
    bits := bits || (strpos(alphabet, substr(id, length(prefix) + 1 + i, 1)) - 1)::bit(5);
  END LOOP;
  FOR i IN 0..31 LOOP
    hex := hex || to_hex(substring(bits FROM 3 + i * 4 FOR 4)::bit(4)::integer);
  END LOOP;
  RETURN hex::uuid;
END $$;

-- A UUIDv7 (RFC 9562): 48 bits of milliseconds, the version, and 74 random ones.
CREATE FUNCTION eventsvc.new_id() RETURNS uuid
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  at constant text := lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0');
BEGIN
  RETURN overlay(overlay(gen_random_uuid()::text PLACING left(at, 8) || '-' || right(at, 4) FROM 1 FOR 13) PLACING '7' FROM 15 FOR 1)::uuid;
END $$;

-- Refuses what a POST would refuse, as far as SQL can tell. The message names the argument
-- and the rule.
CREATE FUNCTION eventsvc.refuse(argument text, rule text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION 'eventsvc.fire: % %', argument, rule USING ERRCODE = 'EV422';
END $$;

CREATE FUNCTION eventsvc.check_text(argument text, given text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF octet_length(given) > 255 THEN
    PERFORM eventsvc.refuse(argument, format('is %s bytes long; at most 255 are allowed', octet_length(given)));
  ELSIF given ~ '[\u0001-\u001f\u007f-\u009f]' THEN
    PERFORM eventsvc.refuse(argument, 'must not hold control characters');
  END IF;
END $$;

-- Whether two texts tell the same JSON value; one that jsonb cannot hold is its own text alone.
CREATE FUNCTION eventsvc.same_json(a text, b text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN a = b OR a::jsonb = b::jsonb;
EXCEPTION WHEN data_exception THEN
  RETURN false;
END $$;

-- Whose idempotency keys a session's are: those of the role that it logged in as.
CREATE FUNCTION eventsvc.sql_producer() RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  me constant text := 'sql:' || session_user;
  found_id integer;
BEGIN
  SELECT id INTO found_id FROM eventsvc.producers WHERE owner = me AND tenant IS NULL;
  IF found_id IS NULL THEN
    INSERT INTO eventsvc.producers (owner) VALUES (me) ON CONFLICT DO NOTHING;
    SELECT id INTO found_id FROM eventsvc.producers WHERE owner = me AND tenant IS NULL;
  END IF;
  RETURN found_id;
END $$;

-- Finds the inline receivers among all, or that there is none.
CREATE INDEX receivers_inline ON eventsvc.receivers (id) WHERE declaration ->> 'mode' = 'inline' AND deleted_at IS NULL;

-- The inline receivers that want an event of a type and a tenant, whether SQL can ask them or
-- not: what event.Target.Wants says in Go.
CREATE FUNCTION eventsvc.inline_receivers(type text, tenant text) RETURNS TABLE (key text, declaration jsonb, paused boolean)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN QUERY SELECT r.key, r.declaration, r.paused_at IS NOT NULL OR t.paused_at IS NOT NULL
  FROM eventsvc.receivers r
  JOIN eventsvc.targets t ON t.receiver_id = r.id AND t.name = '' AND t.deleted_at IS NULL AND t.disabled_at IS NULL
  WHERE r.declaration ->> 'mode' = 'inline' AND r.deleted_at IS NULL
    AND coalesce(r.declaration ->> 'tenant', '') IN ('', coalesce(inline_receivers.tenant, ''))
    AND EXISTS (
      SELECT 1 FROM jsonb_array_elements_text(r.declaration -> 'events') p
      WHERE p IN ('*', inline_receivers.type)
         OR p LIKE '%*' AND starts_with(inline_receivers.type, left(p, -1)) AND length(inline_receivers.type) >= length(p))
  ORDER BY t.id;
END $$;

-- ask has the inline receivers of an event agree to it, in the caller's transaction, and raises
-- EV409 where one does not: whatever its function raises, but that the whole was cancelled or is
-- to be run again, is a veto. So is what SQL cannot do for one: ask an address, tell whether a
-- filter is met, take a role. A function is called with the rights that fire has; it looks for
-- names where it would in the service, and in what the caller has made for itself last.
CREATE FUNCTION eventsvc.ask(type text, tenant text, told jsonb, data text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  receiver record;
  why text;
  delivery text;
BEGIN
  FOR receiver IN SELECT * FROM eventsvc.inline_receivers(ask.type, ask.tenant) LOOP
    delivery := eventsvc.typeid('dlv', eventsvc.new_id());
    why := CASE
      WHEN receiver.paused THEN 'it is paused, and so cannot agree'
      WHEN coalesce(receiver.declaration ->> 'function', '') = '' THEN 'it is asked over HTTP before an event is stored, which SQL cannot do'
      WHEN coalesce(receiver.declaration ->> 'filter', '') <> '' THEN 'whether its filter is met cannot be told in SQL'
      WHEN coalesce(receiver.declaration ->> 'role', '') <> '' THEN 'its role cannot be taken in a transaction of somebody else'
    END;
    IF why IS NULL THEN
      BEGIN
        PERFORM set_config('search_path', '"$user", public, pg_temp', true);
        EXECUTE format('SELECT %I.%I($1, $2)', split_part(receiver.declaration ->> 'function', '.', 1), split_part(receiver.declaration ->> 'function', '.', 2))
        USING told || jsonb_build_object('data', ask.data::jsonb),
              jsonb_build_object('delivery_id', delivery, 'receiver', receiver.key, 'attempt', 1, 'max_attempts', 1, 'due_at', NULL, 'webhook_id', delivery);
        PERFORM set_config('search_path', 'pg_catalog, pg_temp', true);
      EXCEPTION
        WHEN transaction_rollback THEN
          RAISE;
        WHEN OTHERS THEN
          -- A message that was not written for a producer may tell what it must not know.
          why := CASE WHEN SQLSTATE LIKE 'P0%' OR SQLSTATE LIKE 'EV%' THEN SQLERRM ELSE format('it failed (sql:%s)', SQLSTATE) END;
      END;
    END IF;
    IF why IS NOT NULL THEN
      RAISE EXCEPTION 'eventsvc.fire: receiver % did not agree: %', receiver.key, why USING ERRCODE = 'EV409';
    END IF;
  END LOOP;
END $$;

-- fire writes an event, its key, and that it is to be matched, in the caller's transaction:
-- the event exists if and only if that commits. It answers the event's id. The same key again,
-- with the same event, answers the first one's id; with another, it raises EV409. What breaks a
-- rule raises EV422, and what an inline receiver does not agree to EV409. It runs with its owner's rights, so a caller needs none but to execute it;
-- what its caller's session says of names and of backslashes has no say in it.
CREATE FUNCTION eventsvc.fire(
  type text, data text, key text DEFAULT NULL, tenant text DEFAULT NULL, subject text DEFAULT NULL, source text DEFAULT NULL,
  occurred_at timestamptz DEFAULT NULL, actor jsonb DEFAULT NULL, correlation_id text DEFAULT NULL, causation_id text DEFAULT NULL,
  metadata jsonb DEFAULT NULL, suppress text DEFAULT NULL, traceparent text DEFAULT NULL
) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
#variable_conflict use_column
DECLARE
  a_type alias FOR $1; a_data alias FOR $2; a_key alias FOR $3; a_tenant alias FOR $4; a_subject alias FOR $5; a_source alias FOR $6;
  a_occurred alias FOR $7; a_actor alias FOR $8; a_correlation alias FOR $9; a_causation alias FOR $10; a_metadata alias FOR $11;
  a_suppress alias FOR $12; a_trace alias FOR $13;
  made uuid := eventsvc.new_id();
  told bytea;
  spent_on uuid;
  spent_told bytea;
  producer_id integer := eventsvc.sql_producer();
  chain text;
  part record;
BEGIN
  IF a_type IS NULL OR octet_length(a_type) > 128 OR a_type !~ '^[a-z0-9_]+(\.[a-z0-9_]+)*$' THEN
    PERFORM eventsvc.refuse('type', 'must be dotted parts of a-z, 0-9 and _, 128 characters at most');
  ELSIF a_type LIKE 'eventsvc.%' THEN
    PERFORM eventsvc.refuse('type', 'must not begin with eventsvc.: those types are the service''s own');
  END IF;
  IF a_data IS NULL THEN
    PERFORM eventsvc.refuse('data', 'is required: any JSON value');
  ELSIF octet_length(convert_to(a_data, 'UTF8')) > 262144 THEN
    PERFORM eventsvc.refuse('data', format('is %s bytes; at most 262144 are allowed', octet_length(convert_to(a_data, 'UTF8'))));
  END IF;
  BEGIN
    PERFORM a_data::json;
  EXCEPTION WHEN data_exception OR statement_too_complex THEN
    PERFORM eventsvc.refuse('data', 'is no JSON: ' || SQLERRM);
  END;
  -- An empty text is none, as in a POST.
  a_tenant := nullif(a_tenant, ''); a_subject := nullif(a_subject, ''); a_source := nullif(a_source, '');
  a_correlation := nullif(a_correlation, ''); a_causation := nullif(a_causation, '');
  IF a_trace !~ '^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$' THEN
    a_trace := NULL;  -- one that cannot be read is none
  END IF;
  a_key := coalesce(a_key, 'sql-' || made);
  IF a_key !~ '^[!-~]{1,255}$' THEN
    PERFORM eventsvc.refuse('key', 'must be 1 to 255 visible ASCII characters');
  END IF;
  PERFORM eventsvc.check_text('tenant', a_tenant), eventsvc.check_text('subject', a_subject), eventsvc.check_text('source', a_source),
          eventsvc.check_text('correlation_id', a_correlation), eventsvc.check_text('causation_id', a_causation), eventsvc.check_text('suppress', a_suppress);
  IF a_suppress = '' THEN
    PERFORM eventsvc.refuse('suppress', 'must say why, as it is what the event''s readers are told');
  END IF;
  IF a_actor IS NOT NULL THEN
    IF jsonb_typeof(a_actor) <> 'object' OR coalesce(jsonb_typeof(a_actor -> 'key'), '') <> 'string' OR a_actor ->> 'key' = ''
       OR coalesce(jsonb_typeof(a_actor -> 'label'), 'string') <> 'string' OR a_actor - 'key' - 'label' <> '{}' THEN
      PERFORM eventsvc.refuse('actor', 'must be an object with a key, and a label at most beside it, both strings');
    END IF;
    PERFORM eventsvc.check_text('actor', a_actor ->> 'key'), eventsvc.check_text('actor', a_actor ->> 'label');
  END IF;
  IF a_metadata IS NOT NULL THEN
    IF jsonb_typeof(a_metadata) <> 'object' THEN
      PERFORM eventsvc.refuse('metadata', 'must be an object of strings');
    END IF;
    FOR part IN SELECT m.key AS name, m.value AS given FROM jsonb_each(a_metadata) m LOOP
      IF jsonb_typeof(part.given) <> 'string' THEN
        PERFORM eventsvc.refuse('metadata', format('must be an object of strings; %s is none', part.name));
      END IF;
      PERFORM eventsvc.check_text('metadata', part.name), eventsvc.check_text('metadata', part.given #>> '{}');
    END LOOP;
    IF (SELECT count(*) FROM jsonb_object_keys(a_metadata)) > 50 THEN
      PERFORM eventsvc.refuse('metadata', 'holds more than 50 entries');
    END IF;
  END IF;
  IF a_occurred IN ('infinity', '-infinity', '0001-01-01 00:00:00+00') OR extract(year FROM a_occurred AT TIME ZONE 'UTC') NOT BETWEEN 1 AND 9999 THEN
    PERFORM eventsvc.refuse('occurred_at', 'is outside the years 1 to 9999 in UTC');
  END IF;

  told := sha256(convert_to(jsonb_build_array(a_type, a_tenant, a_subject, a_source, extract(epoch FROM a_occurred), a_actor, a_correlation,
                                              a_causation, nullif(a_metadata, '{}'), a_suppress)::text || a_data, 'UTF8'));
  INSERT INTO eventsvc.fire_keys (producer, key, event_id, body_sha256, owes)
  VALUES (producer_id, a_key, made, told, '[]')
  ON CONFLICT DO NOTHING;
  IF NOT FOUND THEN  -- a statement of its own sees what was committed while the last one waited
    SELECT k.event_id, k.body_sha256 INTO spent_on, spent_told FROM eventsvc.fire_keys k WHERE k.producer = producer_id AND k.key = a_key;
    IF spent_told = told OR EXISTS (  -- by its hash it is known still once the event is pruned
      SELECT 1 FROM eventsvc.events e
      WHERE e.id = spent_on AND e.type = a_type AND eventsvc.same_json(convert_from(e.data, 'UTF8'), a_data)
        AND (e.tenant, e.subject, e.source, e.occurred_at, e.causation_id, e.actor, e.metadata, e.suppressed)
            IS NOT DISTINCT FROM (a_tenant, a_subject, a_source, a_occurred, a_causation, a_actor, nullif(a_metadata, '{}'), a_suppress)
        -- One that names its cause and no chain has inherited that.
        AND (e.correlation_id IS NOT DISTINCT FROM a_correlation OR a_correlation IS NULL AND a_causation IS NOT NULL)
    ) THEN
      RETURN eventsvc.typeid('evt', spent_on);
    END IF;
    RAISE EXCEPTION 'eventsvc.fire: the key % was used for another event', a_key
      USING ERRCODE = 'EV409', HINT = 'Use a new key for a new event.';
  END IF;

  chain := coalesce(a_correlation, (SELECT coalesce(c.correlation_id, a_causation) FROM eventsvc.events c WHERE c.id = eventsvc.untypeid('evt', a_causation)));
  IF a_suppress IS NULL AND EXISTS (SELECT 1 FROM eventsvc.receivers r WHERE r.declaration ->> 'mode' = 'inline' AND r.deleted_at IS NULL) THEN
    PERFORM eventsvc.ask(a_type, a_tenant, jsonb_build_object(
      'id', eventsvc.typeid('evt', made), 'type', a_type, 'tenant', a_tenant, 'subject', a_subject, 'source', a_source,
      'occurred_at', to_char(a_occurred AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), 'recorded_at', to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
      'actor', a_actor, 'correlation_id', coalesce(chain, eventsvc.typeid('evt', made)), 'causation_id', a_causation, 'metadata', nullif(a_metadata, '{}')), a_data);
  END IF;

  INSERT INTO eventsvc.events (id, type, producer, idempotency_key, tenant, subject, source, occurred_at, correlation_id, causation_id, actor, metadata, suppressed, traceparent, data)
  VALUES (made, a_type, producer_id, a_key, a_tenant, a_subject, a_source, a_occurred, chain, a_causation, a_actor, nullif(a_metadata, '{}'), a_suppress, a_trace, convert_to(a_data, 'UTF8'));
  INSERT INTO eventsvc.unmatched (event_id) VALUES (made);
  -- One notification a transaction, however many events. Its commit takes a lock that all who
  -- notify share: a caller with thousands of commits a second sets eventsvc.wake to poll.
  IF coalesce(current_setting('eventsvc.wake', true), '') <> 'poll' THEN
    PERFORM pg_notify('eventsvc_wake', 'sql');
  END IF;
  RETURN eventsvc.typeid('evt', made);
END $$;

CREATE FUNCTION eventsvc.fire(
  type text, data json, key text DEFAULT NULL, tenant text DEFAULT NULL, subject text DEFAULT NULL, source text DEFAULT NULL,
  occurred_at timestamptz DEFAULT NULL, actor jsonb DEFAULT NULL, correlation_id text DEFAULT NULL, causation_id text DEFAULT NULL,
  metadata jsonb DEFAULT NULL, suppress text DEFAULT NULL, traceparent text DEFAULT NULL
) RETURNS text LANGUAGE sql SET search_path = pg_catalog, pg_temp
RETURN eventsvc.fire(type, data::text, key, tenant, subject, source, occurred_at, actor, correlation_id, causation_id, metadata, suppress, traceparent);

CREATE FUNCTION eventsvc.fire(
  type text, data jsonb, key text DEFAULT NULL, tenant text DEFAULT NULL, subject text DEFAULT NULL, source text DEFAULT NULL,
  occurred_at timestamptz DEFAULT NULL, actor jsonb DEFAULT NULL, correlation_id text DEFAULT NULL, causation_id text DEFAULT NULL,
  metadata jsonb DEFAULT NULL, suppress text DEFAULT NULL, traceparent text DEFAULT NULL
) RETURNS text LANGUAGE sql SET search_path = pg_catalog, pg_temp
RETURN eventsvc.fire(type, data::text, key, tenant, subject, source, occurred_at, actor, correlation_id, causation_id, metadata, suppress, traceparent);

-- withdraw ends deliveries that nobody holds. A claim that is being made at this moment either
-- has the row, and it is passed over, or never gets it. Answers the ids withdrawn. The ledger's
-- own cancelling is this too.
CREATE FUNCTION eventsvc.withdraw(ids uuid[]) RETURNS SETOF uuid
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  WITH h AS (
    SELECT o.id FROM eventsvc.owed o WHERE o.id = ANY (ids) AND o.claimed_by = 0 ORDER BY o.id FOR UPDATE
  ),
  gone AS (
    DELETE FROM eventsvc.owed o USING h WHERE o.id = h.id
    RETURNING o.event_id, o.target_id, o.id, o.attempts, o.max_attempts, o.sending, o.format, o.owed_since, o.due_at
  )
  INSERT INTO eventsvc.settled (event_id, target_id, id, status, attempts, max_attempts, sending, format, owed_since, due_at)
  SELECT event_id, target_id, id, 'cancelled', attempts, max_attempts, sending, format, owed_since, due_at FROM gone
  RETURNING id;
$$;

-- cancel withdraws what is owed for an event, in the caller's transaction: for all of its
-- receivers, or for one. What a worker holds at this moment is left alone. It answers how many
-- deliveries are withdrawn. An event that is not matched yet is then owed to nobody.
CREATE FUNCTION eventsvc.cancel(event text, receiver text DEFAULT NULL) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
DECLARE
  an_event constant uuid := eventsvc.untypeid('evt', event);
  n integer;
BEGIN
  IF an_event IS NULL THEN
    RAISE EXCEPTION 'eventsvc.cancel: % is no id of an event', coalesce(event, 'null') USING ERRCODE = 'EV422';
  END IF;
  IF EXISTS (SELECT 1 FROM eventsvc.unmatched u WHERE u.event_id = an_event) THEN
    IF cancel.receiver IS NOT NULL THEN
      RAISE EXCEPTION 'eventsvc.cancel: event % is not matched to its receivers yet', event
        USING ERRCODE = 'EV409', HINT = 'Cancel it whole, or once it is matched, which is soon after its transaction has committed.';
    END IF;
    DELETE FROM eventsvc.unmatched u WHERE u.event_id = an_event;
  END IF;
  SELECT count(*) INTO n
  FROM eventsvc.withdraw(ARRAY(
    SELECT o.id
    FROM eventsvc.owed o
    JOIN eventsvc.targets t ON t.id = o.target_id
    JOIN eventsvc.receivers r ON r.id = t.receiver_id
    WHERE o.event_id = an_event AND (cancel.receiver IS NULL OR r.key = cancel.receiver)));
  RETURN n;
END $$;

-- allow lets a role fire and cancel, and nothing else: it needs no right on any table. It
-- is a producer from then on, so that its first fires do not wait for each other.
CREATE FUNCTION eventsvc.allow(role name) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  f regprocedure;
BEGIN
  EXECUTE format('GRANT USAGE ON SCHEMA eventsvc TO %I', role);
  FOR f IN SELECT p.oid FROM pg_proc p WHERE p.pronamespace = 'eventsvc'::regnamespace AND p.proname IN ('fire', 'cancel') LOOP
    EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', f, role);
  END LOOP;
  INSERT INTO eventsvc.producers (owner) VALUES ('sql:' || role) ON CONFLICT DO NOTHING;
END $$;

REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA eventsvc FROM PUBLIC;
