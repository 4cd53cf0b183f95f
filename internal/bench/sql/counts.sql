-- bench: how many rows there are of everything that must add up.
SELECT (SELECT count(*) FROM eventsvc.events),
       (SELECT count(*) FROM eventsvc.owed),
       (SELECT count(*) FROM eventsvc.settled),
       (SELECT count(*) FROM eventsvc.settled WHERE status = 'succeeded'),
       (SELECT count(*) FROM eventsvc.attempts);
