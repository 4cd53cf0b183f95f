-- How tables are stored and vacuumed, where PostgreSQL's own settings do not suit them. What
-- owed has stands at its making.
--
-- events, settled and attempts have none of their own: they are appended to, read by ranges
-- of time, and deleted from where they are oldest. Nothing in them changes in place (but for
-- an event that was fired in SQL, once), so pages are filled whole; and autovacuum comes by
-- what was inserted, per partition, which a week's rows at most make large.
SET LOCAL lock_timeout = '3s';

-- Every fire adds a key, and what retention deletes goes one by one from all over the index:
-- a fifth of a hundred million keys would be dead before the setting that all tables have
-- called for a vacuum.
ALTER TABLE eventsvc.fire_keys SET (
  autovacuum_vacuum_scale_factor        = 0.02,
  autovacuum_vacuum_insert_scale_factor = 0.1,
  autovacuum_analyze_scale_factor       = 0.1
);

-- A queue like owed: what is fired in SQL passes through it within a moment.
ALTER TABLE eventsvc.unmatched SET (
  autovacuum_vacuum_scale_factor     = 0,      -- by count, not by share: the table is small and its churn is not
  autovacuum_vacuum_threshold        = 20000,
  autovacuum_vacuum_insert_threshold = -1,
  autovacuum_vacuum_cost_delay       = 0,
  vacuum_truncate                    = off     -- truncating the empty tail would take ACCESS EXCLUSIVE and stall fires
);
