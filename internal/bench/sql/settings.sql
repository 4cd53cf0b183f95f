-- bench: the server's settings that decide what a commit costs.
SELECT name, current_setting(name)
FROM unnest(ARRAY['server_version', 'fsync', 'synchronous_commit', 'full_page_writes', 'wal_sync_method', 'shared_buffers', 'max_wal_size', 'shared_preload_libraries']) WITH ORDINALITY AS s(name, n)
ORDER BY n;
