// Package spelling guesses which name was meant by one that is not known, so that a
// refusal can say so.
package spelling

import "strings"

// Nearest is the known name that is nearest to the given one, or "" where none is
// near: equal but for case and separators, or a third of its letters away at most (two
// in a short name, which are then a pair changed about).
func Nearest(name string, known []string) string {
	best, distance := "", max(len(name)/3, min(2, len(name)-1))+1
	for _, k := range known {
		if plain(k) == plain(name) {
			return k
		}
		if d := edits(strings.ToLower(name), strings.ToLower(k)); d < distance {
			best, distance = k, d
		}
	}
	return best
}

// DidYouMean is " (did you mean X?)", or "" where no known name is near.
func DidYouMean(name string, known []string) string {
	if near := Nearest(name, known); near != "" {
		return " (did you mean " + near + "?)"
	}
	return ""
}

func plain(s string) string {
	return strings.NewReplacer("_", "", "-", "", ".", "").Replace(strings.ToLower(s))
}

// maxCompared bounds the cost of a comparison, whatever was sent.
const maxCompared = 64

// edits is the Levenshtein distance: how many letters to insert, delete or replace.
func edits(a, b string) int {
	if len(a) > maxCompared || len(b) > maxCompared {
		return maxCompared
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
