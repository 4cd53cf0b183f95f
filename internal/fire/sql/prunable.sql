-- fire: events whose time is over, after an id, in order: past the window given, past one of their own, or done as their type says. Never one that something is owed for. No rows: none is left.
-- Each arm walks an index of its own, so that a prune with nothing to do costs what there is of events with a retention of their own, and not what there is of history.
SELECT id
FROM (
  (SELECT e.id
   FROM eventsvc.events e
   WHERE e.id > @after
     AND e.id < eventsvc.uuid_floor(now() - @keep::interval)
     AND e.recorded_at < now() - @keep::interval
     AND e.keep_until IS NULL
     AND NOT EXISTS (SELECT 1 FROM eventsvc.owed o WHERE o.event_id = e.id)
   ORDER BY e.id
   LIMIT @n)
  UNION
  (SELECT e.id
   FROM eventsvc.events e
   WHERE e.id > @after
     AND e.keep_until < now()
     AND NOT EXISTS (SELECT 1 FROM eventsvc.owed o WHERE o.event_id = e.id)
   ORDER BY e.id
   LIMIT @n)
  UNION
  (SELECT e.id
   FROM eventsvc.events e
   WHERE e.id > @after
     AND e.forget_when IS NOT NULL
     AND NOT EXISTS (SELECT 1 FROM eventsvc.owed o WHERE o.event_id = e.id)
     AND (e.forget_when = 'settled'
          OR NOT EXISTS (SELECT 1 FROM eventsvc.settled s WHERE s.event_id = e.id AND s.status <> 'succeeded'))
   ORDER BY e.id
   LIMIT @n)
) p
ORDER BY id
LIMIT @n;
