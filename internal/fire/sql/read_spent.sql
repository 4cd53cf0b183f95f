-- fire: what spent keys were spent on. No row for a key: whoever held it rolled back, and it is free again.
-- FOR KEY SHARE writes to the log, so that this transaction's commit waits like the first one's did: a repeated answer is never given before the event is as durable as a first answer would be.
-- An event that was pruned before its key has no type: what a repeat is told of it comes from the repeat.
SELECT q.n, f.event_id, f.body_sha256, f.owes,
       coalesce(e.recorded_at, f.recorded_at), coalesce(e.type, ''), e.tenant, e.subject, e.source, e.occurred_at, e.correlation_id, e.causation_id,
       e.actor, e.metadata, e.suppressed, e.traceparent, e.data
FROM unnest(@producers::integer[], @keys::text[]) WITH ORDINALITY AS q(producer, key, n)
CROSS JOIN LATERAL (  -- one index probe a key: any other form scans the producer's keys on a table without statistics
  SELECT k.event_id, k.body_sha256, k.owes, k.recorded_at
  FROM eventsvc.fire_keys k
  WHERE k.producer = q.producer AND k.key = q.key
  LIMIT 1
  FOR KEY SHARE) f
LEFT JOIN LATERAL (  -- a fence: a plan made while there were no events may read all of them for each key
  SELECT * FROM eventsvc.events WHERE id = f.event_id OFFSET 0) e ON true;
