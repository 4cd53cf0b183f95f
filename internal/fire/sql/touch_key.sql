-- fire: the hash of the request that a key was spent by, in a transaction whose commit waits like the first one's did (see read_spent.sql). No rows: the key is free.
SELECT body_sha256 FROM eventsvc.fire_keys WHERE producer = @producer AND key = @key FOR KEY SHARE;
