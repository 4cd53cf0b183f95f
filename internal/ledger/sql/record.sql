-- ledger: settle claims: rows that end move to settled, the others go back; every attempt is kept. Answers the ids recorded, one that is missing had lost its claim; and each target that went from well to failing, died again, or recovered.
WITH a AS MATERIALIZED (
  SELECT *
  FROM unnest(@ids::uuid[], @claimed::timestamptz[], @statuses::text[], @spent::smallint[], @waits::interval[], @untils::timestamptz[],
              @numbers::smallint[], @outcomes::text[], @ages::interval[], @durations::integer[],
              @http::smallint[], @classes::text[], @errors::text[], @evidence::bytea[])
    AS a(id, claimed_at, status, spent, wait, until, number, outcome, ago, duration_ms, http_status, class, error, evidence)
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
            a.number, a.outcome, a.ago, a.duration_ms, a.http_status, a.class, a.error, a.evidence
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
            a.number, a.outcome, a.ago, a.duration_ms, a.http_status, a.class, a.error, a.evidence
),
ended AS (
  INSERT INTO eventsvc.settled (event_id, target_id, id, status, attempts, max_attempts, sending, format, owed_since, due_at)
  SELECT event_id, target_id, id, status::eventsvc.ending, attempts, max_attempts, sending, format, owed_since, due_at
  FROM gone
),
done AS (
  SELECT event_id, id, number, outcome, ago, duration_ms, http_status, class, error, evidence FROM gone
  UNION ALL
  SELECT event_id, id, number, outcome, ago, duration_ms, http_status, class, error, evidence FROM back
),
trail AS (
  INSERT INTO eventsvc.attempts (event_id, delivery_id, number, outcome, worker, started_at, duration_ms, http_status, class, error, evidence)
  SELECT event_id, id, number, outcome::eventsvc.outcome, @worker, now() - ago, duration_ms, http_status, nullif(class, ''), nullif(error, ''), evidence
  FROM done
  WHERE outcome <> ''
),
-- How targets of fan-out receivers fare. The rows are locked in order, so that no two
-- batches deadlock.
deaths AS (
  SELECT target_id, count(*)::integer AS n FROM gone WHERE status = 'dead' AND target_id = ANY (@watched::integer[]) GROUP BY target_id ORDER BY target_id
),
sick AS (
  INSERT INTO eventsvc.target_health AS h (target_id, dead, incident)
  SELECT target_id, n, 1 FROM deaths
  ON CONFLICT (target_id) DO UPDATE SET
    incident = h.incident + CASE WHEN h.dead = 0 THEN 1 ELSE 0 END,
    dead     = h.dead + excluded.dead
  RETURNING h.target_id, h.dead, h.incident
),
risen AS (
  SELECT h.target_id
  FROM eventsvc.target_health h
  WHERE h.dead > 0
    AND h.target_id = ANY (@watched::integer[])
    AND h.target_id IN (SELECT target_id FROM gone WHERE status = 'succeeded')
    AND h.target_id NOT IN (SELECT target_id FROM deaths)
  ORDER BY h.target_id
  FOR UPDATE
),
well AS (
  UPDATE eventsvc.target_health h SET dead = 0 FROM risen WHERE h.target_id = risen.target_id AND h.dead > 0
  RETURNING h.target_id, h.incident
)
SELECT id, NULL::integer AS target_id, NULL::integer AS dead, NULL::integer AS died, NULL::integer AS incident FROM done
UNION ALL
SELECT NULL, s.target_id, s.dead, d.n, s.incident FROM sick s JOIN deaths d ON d.target_id = s.target_id
UNION ALL
SELECT NULL, target_id, 0, 0, incident FROM well;
