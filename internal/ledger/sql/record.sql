-- ledger: settle claims: rows that end move to settled, the others go back; every attempt is kept. Answers the ids recorded; one that is missing had lost its claim.
WITH a AS MATERIALIZED (
  SELECT *
  FROM unnest(@ids::uuid[], @claimed::timestamptz[], @statuses::text[], @spent::smallint[], @waits::interval[], @untils::timestamptz[],
              @numbers::smallint[], @outcomes::text[], @started::timestamptz[], @durations::integer[],
              @http::smallint[], @classes::text[], @errors::text[], @evidence::bytea[])
    AS a(id, claimed_at, status, spent, wait, until, number, outcome, started_at, duration_ms, http_status, class, error, evidence)
),
-- DELETE and UPDATE hand the verdict's own columns on: joining their result with a again
-- would be quadratic under pinned plans.
gone AS (
  DELETE FROM eventsvc.owed h
  USING a
  WHERE a.status IN ('succeeded', 'dead', 'orphaned')
    AND h.id = a.id AND h.claimed_by = @worker AND h.claimed_at = a.claimed_at
  RETURNING h.event_id, h.target_id, h.id, a.status, (h.attempts + a.spent)::smallint AS attempts, h.max_attempts, h.sending, h.format,
            h.owed_since, h.due_at,
            a.number, a.outcome, a.started_at, a.duration_ms, a.http_status, a.class, a.error, a.evidence
),
back AS (
  UPDATE eventsvc.owed h
  SET claimed_by = 0, claimed_at = '-infinity', lease_until = '-infinity', claims = 0,
      attempts     = h.attempts + a.spent,
      failed       = a.status = 'failed',
      available_at = coalesce(a.until, now() + a.wait),
      due_at       = coalesce(a.until, h.due_at)
  FROM a
  WHERE a.status IN ('failed', 'pending')
    AND h.id = a.id AND h.claimed_by = @worker AND h.claimed_at = a.claimed_at
  RETURNING h.event_id, h.id,
            a.number, a.outcome, a.started_at, a.duration_ms, a.http_status, a.class, a.error, a.evidence
),
ended AS (
  INSERT INTO eventsvc.settled (event_id, target_id, id, status, attempts, max_attempts, sending, format, owed_since, due_at)
  SELECT event_id, target_id, id, status::eventsvc.ending, attempts, max_attempts, sending, format, owed_since, due_at
  FROM gone
),
done AS (
  SELECT event_id, id, number, outcome, started_at, duration_ms, http_status, class, error, evidence FROM gone
  UNION ALL
  SELECT event_id, id, number, outcome, started_at, duration_ms, http_status, class, error, evidence FROM back
),
trail AS (
  INSERT INTO eventsvc.attempts (event_id, delivery_id, number, outcome, worker, started_at, duration_ms, http_status, class, error, evidence)
  SELECT event_id, id, number, outcome::eventsvc.outcome, @worker, started_at, duration_ms, http_status, nullif(class, ''), nullif(error, ''), evidence
  FROM done
  WHERE outcome <> ''
)
SELECT id FROM done;
