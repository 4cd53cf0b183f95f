-- ledger: delete up to so many attempts of events that are pruned. Answers how many.
WITH few AS (
  SELECT tableoid AS part, ctid AS line FROM eventsvc.attempts WHERE event_id = ANY (@events::uuid[]) LIMIT @n
)
DELETE FROM eventsvc.attempts a USING few WHERE a.event_id = ANY (@events::uuid[]) AND a.tableoid = few.part AND a.ctid = few.line;
