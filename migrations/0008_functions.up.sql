-- What function receivers say their verdicts with.
SET LOCAL lock_timeout = '3s';

-- Each of these ends the function that calls it. The service reads the SQLSTATE, so a
-- function whose role may not use this schema raises it itself.

-- Never again.
CREATE FUNCTION eventsvc.permanent(reason text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION USING ERRCODE = 'EV410', MESSAGE = coalesce(reason, 'never again');
END $$;

-- Again after so many seconds. Not counted, the attempt is not spent.
CREATE FUNCTION eventsvc.retry_after(seconds integer, counts boolean DEFAULT true) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION USING ERRCODE = 'EV429', MESSAGE = format('asks to be called again after %s s', seconds),
    DETAIL = json_build_object('seconds', seconds, 'counts', counts)::text;
END $$;

-- The work is not due before a moment.
CREATE FUNCTION eventsvc.not_yet(at timestamptz) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION USING ERRCODE = 'EV425', MESSAGE = 'the work is not due yet',
    DETAIL = coalesce(to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), 'never');
END $$;
