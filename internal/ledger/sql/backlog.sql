-- ledger: every target that is owed something that could be claimed now, and the place of the first of it, found by skipping through the claim index. No rows: nothing is due.
WITH RECURSIVE t AS (
  (SELECT target_id FROM eventsvc.owed ORDER BY target_id LIMIT 1)
  UNION ALL
  SELECT (SELECT o.target_id FROM eventsvc.owed o WHERE o.target_id > t.target_id ORDER BY o.target_id LIMIT 1)
  FROM t
  WHERE t.target_id IS NOT NULL
)
SELECT t.target_id, x.available_at, x.id, (SELECT revision FROM eventsvc.registry) AS revision
FROM t
CROSS JOIN LATERAL (
  SELECT h.available_at, h.id
  FROM eventsvc.owed h
  WHERE h.target_id = t.target_id
    AND h.lease_until < now()
    AND h.available_at <= now()
  ORDER BY h.available_at, h.id
  LIMIT 1) x
WHERE t.target_id IS NOT NULL;
