-- ledger: targets of a lane that workers elsewhere claim for and that are owed something, due or not, and the registry's revision. No rows: nothing is owed to any.
SELECT t.id, (SELECT revision FROM eventsvc.registry) AS revision
FROM eventsvc.lanes l
JOIN eventsvc.receivers r ON r.lane_id = l.id    AND r.declaration ->> 'site' = 'task' AND r.deleted_at IS NULL
JOIN eventsvc.targets t   ON t.receiver_id = r.id AND t.url = '' AND t.deleted_at IS NULL
WHERE l.name = @lane
  AND EXISTS (SELECT 1 FROM eventsvc.owed o WHERE o.target_id = t.id)
ORDER BY t.id;
