-- fire: these events are matched, and what their keys were answered and how long they are kept is known. Those that are refused stay, with why.
WITH m AS (
  SELECT * FROM unnest(@ids::uuid[], @producers::integer[], @keys::text[], @owes::bytea[], @keeps::interval[], @forget::text[], @refused::text[])
    AS m(id, producer, key, owes, keep, forget_when, refused)
),
k AS (
  UPDATE eventsvc.fire_keys f SET owes = m.owes FROM m WHERE f.producer = m.producer AND f.key = m.key AND f.event_id = m.id AND m.refused IS NULL
),
e AS (
  UPDATE eventsvc.events e SET keep_until = e.recorded_at + m.keep, forget_when = m.forget_when
  FROM m WHERE e.id = m.id AND m.refused IS NULL AND (m.keep IS NOT NULL OR m.forget_when IS NOT NULL)
),
r AS (
  UPDATE eventsvc.unmatched u SET refused = m.refused FROM m WHERE u.event_id = m.id AND m.refused IS NOT NULL
)
DELETE FROM eventsvc.unmatched u USING m WHERE u.event_id = m.id AND m.refused IS NULL;
