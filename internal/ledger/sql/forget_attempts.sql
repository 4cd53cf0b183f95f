-- ledger: delete up to so many attempts of events that are pruned, found by their deliveries, all of which have ended. Answers how many.
WITH few AS (
  SELECT a.tableoid AS part, a.ctid AS line, a.event_id
  FROM eventsvc.settled s
  CROSS JOIN LATERAL (  -- a fence: no index of attempts begins with the event
    SELECT x.tableoid, x.ctid, x.event_id FROM eventsvc.attempts x WHERE x.event_id = s.event_id AND x.delivery_id = s.id OFFSET 0) a
  WHERE s.event_id = ANY (@events::uuid[])
  LIMIT @n
)
DELETE FROM eventsvc.attempts a USING few WHERE a.event_id = few.event_id AND a.tableoid = few.part AND a.ctid = few.line;
