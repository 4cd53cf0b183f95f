-- registry: the revision, and every target whose own, receiver's or lane's row is newer than a known revision. At least one row; where nothing is newer, its target is null.
SELECT g.revision, x.*
FROM eventsvc.registry g
LEFT JOIN LATERAL (
  SELECT t.id AS target_id, t.name, t.url, t.declaration AS own, r.key, l.name AS lane, r.declaration,
         (t.paused_at IS NOT NULL OR t.disabled_at IS NOT NULL OR r.paused_at IS NOT NULL OR l.paused_at IS NOT NULL) AS paused,
         (t.disabled_at IS NOT NULL) AS disabled,
         (t.deleted_at IS NOT NULL OR r.deleted_at IS NOT NULL) AS deleted,
         ARRAY(SELECT s.sealed     FROM eventsvc.secrets s WHERE s.target_id = t.id AND s.expires_at > now() ORDER BY s.id DESC) AS sealed,
         ARRAY(SELECT s.kind       FROM eventsvc.secrets s WHERE s.target_id = t.id AND s.expires_at > now() ORDER BY s.id DESC) AS kinds,
         ARRAY(SELECT CASE WHEN s.expires_at < 'infinity' THEN s.expires_at END
               FROM eventsvc.secrets s WHERE s.target_id = t.id AND s.expires_at > now() ORDER BY s.id DESC) AS expires
  FROM eventsvc.targets t
  JOIN eventsvc.receivers r ON r.id = t.receiver_id
  JOIN eventsvc.lanes l ON l.id = r.lane_id
  WHERE greatest(t.revision, r.revision, l.revision) > @known
) x ON true;
