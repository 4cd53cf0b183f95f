package ledger

// What the tests of plans look at.
var (
	SQLPin, SQLClaim, SQLRecord, SQLRelease, SQLBacklog, SQLOwe = sqlPin, sqlClaim, sqlRecord, sqlRelease, sqlBacklog, sqlOwe
	SQLHandOver, SQLTake, SQLTakeBack                           = sqlHandOver, sqlTake, sqlTakeBack
	SQLPulled, SQLHeld, SQLExtend                               = sqlPulled, sqlHeld, sqlExtend
	SQLClaimFresh, SQLUntried                                   = sqlClaimFresh, sqlUntried
	SQLForgetAttempts, SQLForgetSettled                         = sqlForgetAttempts, sqlForgetSettled
)

// RecordArgs are the arguments of a record.
func RecordArgs(entries []Entry) map[string]any {
	c := newColumns(len(entries))
	for i := range entries {
		c.add(&entries[i])
	}
	return c.args(1)
}
