-- fire: take events that were fired in SQL and are not matched yet, with how long ago they were recorded and the registry's revision. One that another process is at is passed over.
SELECT e.id, e.recorded_at, e.type, e.tenant, e.subject, e.source, e.occurred_at, e.correlation_id, e.causation_id,
       e.actor, e.metadata, e.suppressed, e.traceparent, e.data, e.producer, e.idempotency_key, now() - e.recorded_at, (SELECT revision FROM eventsvc.registry)
FROM (SELECT event_id FROM eventsvc.unmatched WHERE refused IS NULL ORDER BY event_id LIMIT @n FOR UPDATE SKIP LOCKED) u
CROSS JOIN LATERAL (  -- a fence: a plan made while there were no events may read all of them for each row
  SELECT * FROM eventsvc.events WHERE id = u.event_id OFFSET 0) e
ORDER BY e.id;
