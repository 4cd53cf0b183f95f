-- Who may call, and who changed what.
SET LOCAL lock_timeout = '3s';

-- A producer is the scope of idempotency keys: an owner, and the tenant that its API keys
-- are bound to. API keys come and go, and one that takes over from another repeats its
-- fires. 0 is the operator.
CREATE TABLE eventsvc.producers (
  id     integer NOT NULL GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  owner  text    NOT NULL CHECK (owner <> ''),
  tenant text    CHECK (tenant <> ''),
  UNIQUE NULLS NOT DISTINCT (owner, tenant)
);

-- An API key. The key itself is nowhere: it holds 32 random bytes, so a plain hash cannot
-- be searched for.
CREATE TABLE eventsvc.api_keys (
  id           integer     GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  public_id    uuid        NOT NULL UNIQUE,
  name         text        NOT NULL CHECK (name <> ''),
  producer_id  integer     NOT NULL REFERENCES eventsvc.producers,
  hash         bytea       NOT NULL UNIQUE CHECK (length(hash) = 32),  -- SHA-256 of the key; every call probes it
  prefix       text        NOT NULL,             -- how the key begins, to tell it by
  scopes       text[]      NOT NULL CHECK (cardinality(scopes) > 0),
  rate         integer     CHECK (rate > 0),     -- requests a second, per process; null: unbounded
  burst        integer     CHECK (burst > 0),
  created_at   timestamptz NOT NULL DEFAULT now(),
  expires_at   timestamptz NOT NULL DEFAULT 'infinity',
  revoked_at   timestamptz,
  last_used_at timestamptz,                      -- to some minutes
  CHECK ((rate IS NULL) = (burst IS NULL))
) WITH (fillfactor = 70);

-- Who changed what, append-only. Before and after never hold a secret.
CREATE TABLE eventsvc.audit (
  id     uuid        NOT NULL PRIMARY KEY,       -- UUIDv7, in the order of time
  at     timestamptz NOT NULL DEFAULT now(),
  key_id uuid,                                   -- of the API key; null: the operator's own
  actor  text        NOT NULL,                   -- its name at the time
  action text        NOT NULL,
  object text        NOT NULL,
  before jsonb,
  after  jsonb                                   -- null where a call on many did not come to its end
);
