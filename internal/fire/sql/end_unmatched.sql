-- fire: an event is matched by a person's replay, whatever it was refused for.
DELETE FROM eventsvc.unmatched WHERE event_id = @id;
