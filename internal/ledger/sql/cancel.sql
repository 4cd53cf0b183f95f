-- ledger: withdraw deliveries that nobody holds, as eventsvc.cancel() does (migrations/0007_sql_fire.up.sql). Answers the ids withdrawn.
SELECT id FROM eventsvc.withdraw(@ids::uuid[]) AS id;
