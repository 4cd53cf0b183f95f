-- ledger: the event of a delivery, by the delivery's id alone. No rows: there is no such delivery.
SELECT event_id FROM eventsvc.owed WHERE id = @id
UNION ALL
SELECT event_id FROM eventsvc.settled WHERE id = @id
LIMIT 1;
