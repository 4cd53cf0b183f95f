-- access: whether any key opens just now. Always one row.
SELECT EXISTS (SELECT 1 FROM eventsvc.api_keys WHERE revoked_at IS NULL AND expires_at > now());
