-- fire: those of these locked events whose time is over still. A replay may have been quicker.
SELECT e.id
FROM eventsvc.events e
WHERE e.id = ANY (@ids::uuid[])
  AND NOT EXISTS (SELECT 1 FROM eventsvc.owed o WHERE o.event_id = e.id)
  AND NOT EXISTS (SELECT 1 FROM eventsvc.unmatched u WHERE u.event_id = e.id AND u.refused IS NULL)
  AND (e.keep_until < now()
       OR e.keep_until IS NULL AND e.recorded_at < now() - @keep::interval
       OR e.forget_when = 'settled'
       OR e.forget_when = 'succeeded' AND NOT EXISTS (SELECT 1 FROM eventsvc.settled s WHERE s.event_id = e.id AND s.status <> 'succeeded'))
ORDER BY e.id;
