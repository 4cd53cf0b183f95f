-- registry: draw the next revision; the row's lock makes writers of the registry take turns. Always one row.
UPDATE eventsvc.registry SET revision = revision + 1 RETURNING revision;
