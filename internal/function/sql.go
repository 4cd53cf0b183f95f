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

	// tidy undoes what the function may have set, opened or begun in the session. A search
	// path of its own could otherwise have the record call its functions with our rights.
	tidy = `RESET SESSION AUTHORIZATION; RESET ROLE; RESET ALL; CLOSE ALL; UNLISTEN *; DISCARD TEMP; DISCARD SEQUENCES; SET LOCAL search_path = pg_catalog; SET LOCAL statement_timeout = '5s'`
)
