-- registry: forget all secrets of a target.
DELETE FROM eventsvc.secrets WHERE target_id = @target;
