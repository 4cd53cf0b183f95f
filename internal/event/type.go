package event

import (
	"fmt"
	"slices"
	"strings"
)

// MaxTypeLength bounds the type of an event, in bytes.
const MaxTypeLength = 128

// ReservedTypes is the first part of the types that only the service itself may
// tell.
const ReservedTypes = "eventsvc."

// CheckType says what is wrong with the type of an event, or nil. A type is dotted
// parts of [a-z0-9_], at most [MaxTypeLength] bytes.
func CheckType(t string) error {
	switch {
	case t == "":
		return fmt.Errorf("must not be empty; it is dotted parts of a-z, 0-9 and _, such as order.placed")
	case len(t) > MaxTypeLength:
		return fmt.Errorf("is %d characters long; at most %d are allowed", len(t), MaxTypeLength)
	}
	for part := range strings.SplitSeq(t, ".") {
		if part == "" {
			return fmt.Errorf("has an empty part; parts are separated by single dots, such as order.placed")
		}
		if i := strings.IndexFunc(part, func(r rune) bool { return !typeRune(r) }); i >= 0 {
			return fmt.Errorf("may hold only a-z, 0-9, _ and dots between parts, but holds %q", firstRune(part[i:]))
		}
	}
	return nil
}

func typeRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '_'
}

func firstRune(s string) rune {
	for _, r := range s {
		return r
	}
	return 0
}

// Pattern says which types a receiver wants: an exact type, "prefix.*" for every
// type below a prefix, or "*" for all.
type Pattern string

// Check says what is wrong with the pattern, or nil.
func (p Pattern) Check() error {
	if p == "*" {
		return nil
	}
	exact := strings.TrimSuffix(string(p), ".*")
	if strings.Contains(exact, "*") {
		return fmt.Errorf("may use * only alone or as the last part, as in order.*")
	}
	return CheckType(exact)
}

// Matches reports whether an event of the type is wanted. The pattern is taken to
// be valid.
func (p Pattern) Matches(t string) bool {
	if p == "*" {
		return true
	}
	if prefix, ok := strings.CutSuffix(string(p), "*"); ok {
		return strings.HasPrefix(t, prefix) && len(t) > len(prefix)
	}
	return string(p) == t
}

// NormalizePatterns sorts the patterns and drops those that another one covers, so
// that ["*","a.*","a.b"] is stored as ["*"].
func NormalizePatterns(patterns []Pattern) []Pattern {
	sorted := slices.Clone(patterns)
	slices.Sort(sorted)
	sorted = slices.Compact(sorted)
	return slices.DeleteFunc(slices.Clone(sorted), func(p Pattern) bool {
		return slices.ContainsFunc(sorted, func(q Pattern) bool { return q != p && q.covers(p) })
	})
}

// covers reports whether every type that p matches is matched by q too.
func (q Pattern) covers(p Pattern) bool {
	if q == "*" {
		return true
	}
	prefix, wild := strings.CutSuffix(string(q), "*")
	return wild && strings.HasPrefix(string(p), prefix)
}
