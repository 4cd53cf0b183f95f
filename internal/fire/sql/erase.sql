-- fire: forget every event and key. For tests.
TRUNCATE eventsvc.fire_keys, eventsvc.events;
