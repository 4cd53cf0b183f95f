-- fire: lock one event against a prune, a replay or a requeue of it. No rows: there is none of that id.
SELECT e.id, e.recorded_at, e.type, e.tenant, e.subject, e.source, e.occurred_at, e.correlation_id, e.causation_id,
       e.actor, e.metadata, e.suppressed, e.traceparent, e.data,
       now() - e.recorded_at, (SELECT revision FROM eventsvc.registry)
FROM eventsvc.events e
WHERE e.id = @id
FOR NO KEY UPDATE OF e;
