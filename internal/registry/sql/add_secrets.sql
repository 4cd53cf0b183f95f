-- registry: one more live secret for each of these targets.
INSERT INTO eventsvc.secrets (target_id, kind, sealed)
SELECT u.target_id, @kind, u.sealed
FROM unnest(@targets::integer[], @sealed::bytea[]) AS u(target_id, sealed);
