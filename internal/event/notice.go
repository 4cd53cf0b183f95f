package event

// Notice is what on_failure is told of one failed attempt, after its row was updated:
// what it was about, what it was recorded as, and what the row is now. It names the
// row rather than showing it, as another worker may hold it by then.
type Notice struct {
	Context
	Status     Status // Failed or Dead
	Class      Class
	Error      string
	HTTPStatus int // 0 where no status line was read
}
