package pg

// OrNull is a value as a parameter: null where it is its type's zero.
func OrNull[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// OrZero is a column that may be null: its type's zero where it is.
func OrZero[T any](v *T) T {
	if v == nil {
		var zero T
		return zero
	}
	return *v
}
