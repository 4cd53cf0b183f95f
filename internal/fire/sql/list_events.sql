-- fire: events that meet every given filter, newest first, below an id. No rows: none does.
SELECT e.id, e.recorded_at, e.type, e.tenant, e.subject, e.source, e.occurred_at, e.correlation_id, e.causation_id,
       e.actor, e.metadata, e.suppressed, e.traceparent, e.data
FROM eventsvc.events e
WHERE (@below::uuid IS NULL OR e.id < @below)
  AND (@type::text IS NULL OR e.type = @type)
  AND (@tenant::text IS NULL OR e.tenant = @tenant)
  AND (@subject::text IS NULL OR e.subject = @subject)
  AND (@correlation::text IS NULL OR e.correlation_id = @correlation OR (@root::uuid IS NOT NULL AND e.id = @root))
  AND (@since::timestamptz IS NULL OR e.recorded_at >= @since)
  AND (@until::timestamptz IS NULL OR e.recorded_at < @until)
ORDER BY e.id DESC
LIMIT @limit;
