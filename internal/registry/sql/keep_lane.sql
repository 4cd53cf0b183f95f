-- registry: the lane of that name, made if need be. Always one row.
INSERT INTO eventsvc.lanes (name, revision)
VALUES (@name, @revision)
ON CONFLICT (name) DO UPDATE SET name = excluded.name
RETURNING id;
