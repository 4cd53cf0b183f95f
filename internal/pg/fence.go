package pg

// The fence between fires and what must not happen beside one: a fire holds it shared
// for as long as its transaction, FenceSQL takes it alone, after those under way and
// before those to come. It belongs to the transaction, so it holds behind a transaction
// pooler too.
const (
	FenceSharedSQL = `SELECT pg_advisory_xact_lock_shared(7305808869231650115)`
	FenceSQL       = `SELECT pg_advisory_xact_lock(7305808869231650115)`
)
