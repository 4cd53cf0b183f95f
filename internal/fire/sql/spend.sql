-- fire: spend keys for events, provided that they were matched against the registry as it is. Answers the events whose keys were won, and one row with the registry's revision; an event that is missing lost its key to an earlier one, unless the revision is not the one expected.
-- Keys come sorted by (producer, key): two batches that spent the same keys in different orders would deadlock.
WITH r AS (
  SELECT revision FROM eventsvc.registry
),
k AS (
  INSERT INTO eventsvc.fire_keys (producer, key, event_id, body_sha256, owes)
  SELECT u.producer, u.key, u.event_id, u.body_sha256, u.owes
  FROM r, unnest(@producers::integer[], @keys::text[], @ids::uuid[], @hashes::bytea[], @owes::bytea[])
    AS u(producer, key, event_id, body_sha256, owes)
  WHERE r.revision = @revision
  ON CONFLICT DO NOTHING  -- waits for a transaction under way that holds the key
  RETURNING event_id
)
SELECT event_id, NULL::bigint AS revision FROM k
UNION ALL
SELECT NULL, revision FROM r;
