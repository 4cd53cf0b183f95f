-- ledger: a worker lives, and serves these lanes (null: all); targets have acknowledged something so long ago.
WITH w AS (
  UPDATE eventsvc.workers SET seen_at = now(), lanes = @lanes::text[] WHERE id = @worker
)
INSERT INTO eventsvc.last_success AS l (target_id, succeeded_at)
SELECT u.target_id, now() - u.ago
FROM unnest(@targets::integer[], @ages::interval[]) AS u(target_id, ago)
ORDER BY u.target_id  -- two reports that touched the same targets in different orders would deadlock
ON CONFLICT (target_id) DO UPDATE SET succeeded_at = greatest(l.succeeded_at, excluded.succeeded_at);
