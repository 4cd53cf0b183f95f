-- fire: write a transaction whose key was won in this one of the database. Answers when.
INSERT INTO eventsvc.transactions (id, producer, key, tenant, prepared, state, decided_at, events, owes, held, check_url, check_secret, check_at)
VALUES (@id, @producer, @key, @tenant, @state = 'prepared', @state::eventsvc.transaction_state, CASE WHEN @state = 'committed' THEN now() END,
        @events::uuid[], @owes, @held, @check_url, @check_secret, now() + @check_after::interval)
RETURNING created_at;
