package ledger

import "strings"

// maxError bounds what is kept of an attempt's error, in bytes.
const maxError = 2000

// safeText makes any string storable as text: valid UTF-8 without NUL, and bounded.
// Postgres refuses the rest, and a receiver must not be able to make the record of its
// own failure fail (P10).
func safeText(s string) string {
	s = strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "\uFFFD"), "\uFFFD")
	if len(s) > maxError {
		s = strings.ToValidUTF8(s[:maxError], "") + "…"
	}
	return s
}
