-- Targets of fan-out receivers: what each declares, and how it fares.
SET LOCAL lock_timeout = '3s';

ALTER TABLE eventsvc.targets
  ADD COLUMN declaration jsonb       NOT NULL DEFAULT '{}',  -- tenant, events, headers and what is for people
  ADD COLUMN version     integer     NOT NULL DEFAULT 1,     -- the ETag
  ADD COLUMN updated_at  timestamptz NOT NULL DEFAULT now(),
  ADD COLUMN disabled_at timestamptz;                        -- switched off after too many dead deliveries in a row

-- How a target of a fan-out receiver fares: written where its deliveries end, so the
-- database decides who was first. No row: it never failed.
CREATE TABLE eventsvc.target_health (
  target_id integer NOT NULL PRIMARY KEY,
  dead      integer NOT NULL DEFAULT 0,   -- deliveries that died since one last succeeded
  incident  integer NOT NULL DEFAULT 0    -- how often it went from well to failing
) WITH (fillfactor = 50);

-- Keys that sign by Ed25519 (v1a) stand beside those that sign by HMAC (v1).
ALTER TABLE eventsvc.secrets
  ADD COLUMN kind text NOT NULL DEFAULT 'v1' CHECK (kind IN ('v1', 'v1a'));
