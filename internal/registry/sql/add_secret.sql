-- registry: one more live secret of a target.
INSERT INTO eventsvc.secrets (target_id, sealed) VALUES (@target, @sealed);
