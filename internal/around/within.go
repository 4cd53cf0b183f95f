package around

import "context"

// within is a context with the values of one and the end of another: what is recorded of
// an attempt belongs to the hook's context, but a deadline that the hook set for the
// receiver has passed by then as often as not.
func within(values, end context.Context) context.Context {
	if values.Done() == end.Done() {
		return values
	}
	return borrowed{end, values}
}

type borrowed struct {
	context.Context
	values context.Context
}

// Value implements context.Context.
func (b borrowed) Value(key any) any { return b.values.Value(key) }
