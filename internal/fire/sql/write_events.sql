-- fire: write the events whose keys were won in this transaction. Answers when they were recorded; no rows: none was won.
INSERT INTO eventsvc.events (id, type, producer, idempotency_key, tenant, subject, source, occurred_at, correlation_id,
                             causation_id, actor, metadata, suppressed, traceparent, data)
SELECT u.id, u.type, u.producer, u.key, u.tenant, u.subject, u.source, u.occurred_at, u.correlation_id,
       u.causation_id, u.actor::jsonb, u.metadata::jsonb, u.suppressed, u.traceparent, u.data
FROM unnest(@ids::uuid[], @types::text[], @producers::integer[], @keys::text[], @tenants::text[], @subjects::text[], @sources::text[],
            @occurred::timestamptz[], @correlations::text[], @causations::text[], @actors::text[], @metadata::text[],
            @suppressed::text[], @traces::text[], @data::bytea[])
  AS u(id, type, producer, key, tenant, subject, source, occurred_at, correlation_id, causation_id, actor, metadata,
       suppressed, traceparent, data)
WHERE EXISTS (SELECT 1 FROM eventsvc.fire_keys k WHERE k.producer = u.producer AND k.key = u.key AND k.event_id = u.id)
RETURNING recorded_at;
