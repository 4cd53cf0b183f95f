package function

import _ "embed"

var (
	//go:embed sql/bound.sql
	sqlBound string
	//go:embed sql/fits.sql
	sqlFits string
	//go:embed sql/leftovers.sql
	sqlLeftovers string
	//go:embed sql/terminate.sql
	sqlTerminate string
)

// Utility statements, which take no parameters.
const (
	mark    = `SAVEPOINT attempt`
	unmark  = `ROLLBACK TO SAVEPOINT attempt`
	nothing = `SELECT pg_advisory_unlock_all()` // session locks outlive a rollback

	// due has what the function deferred to the commit done now, while a failure of it is
	// still the function's, and with the function's rights.
	due = `SET CONSTRAINTS ALL IMMEDIATE`

	// undue undoes that for a function that is called next in the same transaction: what is
	// deferred from the start is deferred for that one too. A name that one table's constraint
	// shares with another's that cannot be deferred would be refused, and stays as it is.
	undue = `DO $$
DECLARE
  names text := (SELECT string_agg(c.name, ', ') FROM (
    SELECT format('%I.%I', n.nspname, k.conname) AS name
    FROM pg_catalog.pg_constraint k JOIN pg_catalog.pg_namespace n ON n.oid = k.connamespace
    GROUP BY n.nspname, k.conname
    HAVING bool_or(k.condeferred) AND bool_and(k.condeferrable)) c);
BEGIN
  IF names IS NOT NULL THEN
    EXECUTE 'SET CONSTRAINTS ' || names || ' DEFERRED';
  END IF;
END $$`

	// tidy undoes what the function may have set, opened or begun in the session. A search
	// path of its own could otherwise have the record call its functions with our rights. A process
	// that is stopped from here on holds no lock for long.
	tidy = `RESET SESSION AUTHORIZATION; RESET ROLE; RESET ALL; CLOSE ALL; UNLISTEN *; DISCARD TEMP; DISCARD SEQUENCES; SET LOCAL search_path = pg_catalog; SET LOCAL statement_timeout = '5s'; SET LOCAL idle_in_transaction_session_timeout = '5s'`
)
