-- fire: forget every event, key and transaction. For tests.
TRUNCATE eventsvc.fire_keys, eventsvc.events, eventsvc.transactions, eventsvc.unmatched;
