-- fire: lock the matching of an event, before the event itself, as whoever matches it does. Answers whether it is still to be matched, or refused. No rows: it is matched.
SELECT refused IS NULL FROM eventsvc.unmatched WHERE event_id = @id FOR UPDATE;
