package event

// Mode is when a receiver is told, and with which guarantee.
type Mode string

// The modes.
const (
	// Durable receivers are owed a delivery, which is tried until it has ended.
	Durable Mode = "durable"
	// OnCommit receivers are told once after the commit, by the process that fired: best
	// effort, without a row.
	OnCommit Mode = "on_commit"
	// Inline receivers are asked before the event is stored, and may veto it.
	Inline Mode = "inline"
)
