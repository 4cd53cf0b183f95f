-- Takes away what operations added; deliveries and events stay.
SET LOCAL lock_timeout = '3s';
DROP TABLE eventsvc.last_success;
ALTER TABLE eventsvc.workers   DROP COLUMN lanes, DROP COLUMN seen_at;
ALTER TABLE eventsvc.fire_keys DROP COLUMN recorded_at, DROP COLUMN forget_at;
ALTER TABLE eventsvc.events    DROP COLUMN keep_until, DROP COLUMN forget_when;
ALTER TABLE eventsvc.settled   DROP COLUMN format;
ALTER TABLE eventsvc.owed      DROP COLUMN format;
