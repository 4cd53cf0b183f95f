-- fire: how many events that were fired in SQL wait to be matched, and how many are refused.
SELECT count(*) FILTER (WHERE refused IS NULL), count(*) FILTER (WHERE refused IS NOT NULL) FROM eventsvc.unmatched;
