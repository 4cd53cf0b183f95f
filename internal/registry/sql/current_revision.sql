-- registry: the revision, as this transaction has drawn it. Always one row.
SELECT revision FROM eventsvc.registry;
