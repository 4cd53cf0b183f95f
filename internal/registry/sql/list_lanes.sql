-- registry: every lane, by name, with how many receivers are declared in it. At least one row.
SELECT l.name, l.paused_at, (SELECT count(*) FROM eventsvc.receivers r WHERE r.lane_id = l.id AND r.deleted_at IS NULL)::integer AS receivers
FROM eventsvc.lanes l
ORDER BY l.name;
