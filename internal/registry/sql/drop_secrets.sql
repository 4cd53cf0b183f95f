-- registry: forget all secrets of targets.
DELETE FROM eventsvc.secrets WHERE target_id = ANY (@targets::integer[]);
