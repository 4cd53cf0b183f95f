-- ledger: every lane. At least one row.
SELECT name, paused_at IS NOT NULL AS paused FROM eventsvc.lanes ORDER BY name;
