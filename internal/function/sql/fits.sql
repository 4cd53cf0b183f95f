-- function: fail where an argument is no jsonb. One row.
SELECT @argument::jsonb IS NULL;
