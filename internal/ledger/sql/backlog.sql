-- ledger: every target that is owed something, found by skipping through the claim index. No rows: nothing is owed.
WITH RECURSIVE t AS (
  (SELECT target_id FROM eventsvc.owed ORDER BY target_id LIMIT 1)
  UNION ALL
  SELECT (SELECT o.target_id FROM eventsvc.owed o WHERE o.target_id > t.target_id ORDER BY o.target_id LIMIT 1)
  FROM t
  WHERE t.target_id IS NOT NULL
)
SELECT t.target_id, (SELECT revision FROM eventsvc.registry) AS revision
FROM t
WHERE t.target_id IS NOT NULL;
