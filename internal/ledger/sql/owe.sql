-- ledger: one owed row for each debt whose event was written in this transaction. Debts of other events are passed over: their key had been spent.
INSERT INTO eventsvc.owed (id, event_id, target_id, max_attempts, format, available_at, due_at, owed_since)
SELECT u.id, u.event_id, u.target_id, u.max_attempts, u.format, now() + u.due,
       CASE WHEN u.due > interval '0' THEN now() + u.due ELSE '-infinity' END, now()
FROM unnest(@ids::uuid[], @events::uuid[], @targets::integer[], @budgets::smallint[], @formats::smallint[], @dues::interval[])
  AS u(id, event_id, target_id, max_attempts, format, due)
CROSS JOIN LATERAL (SELECT FROM eventsvc.events WHERE id = u.event_id OFFSET 0) e;  -- a fence, as in claim.sql
