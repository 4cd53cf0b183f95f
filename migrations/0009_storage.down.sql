SET LOCAL lock_timeout = '3s';
ALTER TABLE eventsvc.unmatched RESET (
  autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold, autovacuum_vacuum_insert_threshold, autovacuum_vacuum_cost_delay, vacuum_truncate
);
ALTER TABLE eventsvc.fire_keys RESET (
  autovacuum_vacuum_scale_factor, autovacuum_vacuum_insert_scale_factor, autovacuum_analyze_scale_factor
);
