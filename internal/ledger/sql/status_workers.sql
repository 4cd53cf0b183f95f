-- ledger: workers that reported lately. No rows: none did.
SELECT name, lanes, seen_at FROM eventsvc.workers WHERE lanes IS DISTINCT FROM '{}' AND seen_at > now() - @within::interval ORDER BY name, id;
