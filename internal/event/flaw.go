package event

import "strings"

// Flaw is one thing wrong with something that was declared or fired: where (a JSON
// pointer into the body, RFC 6901) and what would be right.
type Flaw struct {
	Pointer string
	Message string
}

// Flaws is the error of a declaration or an event that breaks a rule. It is a
// finding about the input, never about the service.
type Flaws []Flaw

// Error lists the flaws in one line.
func (f Flaws) Error() string {
	parts := make([]string, len(f))
	for i, flaw := range f {
		parts[i] = flaw.Pointer + " " + flaw.Message
	}
	return strings.Join(parts, "; ")
}

// Err is the flaws as an error, or nil where there are none.
func (f Flaws) Err() error {
	if len(f) == 0 {
		return nil
	}
	return f
}

// Add notes a flaw.
func (f *Flaws) Add(pointer, message string) {
	*f = append(*f, Flaw{Pointer: pointer, Message: message})
}

// PointerToken escapes one reference token of a JSON pointer (RFC 6901, section 3).
func PointerToken(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}
