-- fire: events by their ids. No row for one: there is none of that id.
SELECT e.id, e.recorded_at, e.type, e.tenant, e.subject, e.source, e.occurred_at, e.correlation_id, e.causation_id,
       e.actor, e.metadata, e.suppressed, e.traceparent, e.data
FROM eventsvc.events e
WHERE e.id = ANY (@ids::uuid[]);
