-- fire: write the events whose keys were won in this transaction: each names what its key must have been spent on, itself or the transaction that it is of. An event that names its cause and no chain is of its cause's chain, where that is known still; a producer that is bound to a tenant knows of that tenant's events alone. Answers when each was recorded, and its chain; no rows: none was won.
INSERT INTO eventsvc.events (id, type, producer, idempotency_key, tenant, subject, source, occurred_at, correlation_id,
                             causation_id, actor, metadata, suppressed, traceparent, keep_until, forget_when, data)
SELECT u.id, u.type, u.producer, u.key, u.tenant, u.subject, u.source, u.occurred_at,
       coalesce(u.correlation_id, (SELECT coalesce(c.correlation_id, u.causation_id) FROM eventsvc.events c WHERE c.id = u.cause AND (u.bound IS NOT TRUE OR c.tenant = u.tenant))),
       u.causation_id, u.actor::jsonb, u.metadata::jsonb, u.suppressed, u.traceparent, now() + u.keep, u.forget_when, u.data
FROM unnest(@ids::uuid[], @types::text[], @producers::integer[], @keys::text[], @tenants::text[], @subjects::text[], @sources::text[],
            @occurred::timestamptz[], @correlations::text[], @causations::text[], @causes::uuid[], @actors::text[], @metadata::text[],
            @suppressed::text[], @traces::text[], @keeps::interval[], @forget::text[], @bound::boolean[], @data::bytea[], @spent::uuid[])
  AS u(id, type, producer, key, tenant, subject, source, occurred_at, correlation_id, causation_id, cause, actor, metadata,
       suppressed, traceparent, keep, forget_when, bound, data, spent)
WHERE EXISTS (SELECT 1 FROM eventsvc.fire_keys k WHERE k.producer = u.producer AND k.key = u.key AND k.event_id = u.spent)
RETURNING id, recorded_at, correlation_id;
