-- registry: the revision, and every target whose own, receiver's or lane's row is newer than a known revision. At least one row; where nothing is newer, its target is null.
SELECT g.revision, x.*
FROM eventsvc.registry g
LEFT JOIN LATERAL (
  SELECT t.id AS target_id, t.name, t.url, t.declaration AS own, r.key, l.name AS lane, r.declaration,
         (t.paused_at IS NOT NULL OR t.disabled_at IS NOT NULL OR r.paused_at IS NOT NULL OR l.paused_at IS NOT NULL) AS paused,
         (t.disabled_at IS NOT NULL) AS disabled,
         (t.deleted_at IS NOT NULL OR r.deleted_at IS NOT NULL) AS deleted,
         s.sealed, s.kinds, s.expires
  FROM eventsvc.targets t
  JOIN eventsvc.receivers r ON r.id = t.receiver_id
  JOIN eventsvc.lanes l ON l.id = r.lane_id
  CROSS JOIN LATERAL (
    SELECT coalesce(array_agg(k.sealed ORDER BY k.id DESC), '{}') AS sealed,
           coalesce(array_agg(k.kind   ORDER BY k.id DESC), '{}') AS kinds,
           coalesce(array_agg(CASE WHEN k.expires_at < 'infinity' THEN k.expires_at END ORDER BY k.id DESC), '{}') AS expires
    FROM eventsvc.secrets k
    WHERE k.target_id = t.id AND k.expires_at > now()
  ) s
  WHERE greatest(t.revision, r.revision, l.revision) > @known
) x ON true;
