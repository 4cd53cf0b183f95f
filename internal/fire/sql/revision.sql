-- fire: what the registry is by now. One row.
SELECT revision FROM eventsvc.registry;
