-- Takes away what fan-out added: targets lose what they declared beside their URL.
SET LOCAL lock_timeout = '3s';
DROP TABLE eventsvc.target_health;
DELETE FROM eventsvc.secrets WHERE kind <> 'v1';
ALTER TABLE eventsvc.secrets DROP COLUMN kind;
ALTER TABLE eventsvc.targets DROP COLUMN declaration, DROP COLUMN version, DROP COLUMN updated_at, DROP COLUMN disabled_at;
