package event

import "time"

// TransactionState is where events stand that are fired together.
type TransactionState string

// A transaction is prepared, then decided: committed or rolled back. One whose caller is
// asked in vain is in doubt, until a person decides it.
const (
	Prepared   TransactionState = "prepared"
	Committed  TransactionState = "committed"
	RolledBack TransactionState = "rolled_back"
	InDoubt    TransactionState = "in_doubt"
)

// Decided reports whether nothing more can become of it.
func (s TransactionState) Decided() bool { return s == Committed || s == RolledBack }

// Question is what the caller of a prepared transaction is asked: what became of its own
// change.
type Question struct {
	Transaction ID
	Key         string // that the transaction was prepared under
	Made        time.Time
	URL         string
	Secret      Secret
	Number      int // of the question, from 1
}
