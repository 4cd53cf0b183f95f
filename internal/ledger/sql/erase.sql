-- ledger: forget every delivery. For tests.
TRUNCATE eventsvc.owed, eventsvc.settled, eventsvc.attempts;
