package event

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestPatternsAreBoundedAsTypesAre(t *testing.T) {
	for p, good := range map[string]bool{
		strings.Repeat("a", 128):        true,
		strings.Repeat("a", 129):        false,
		strings.Repeat("a", 126) + ".*": true,
		strings.Repeat("a", 129) + ".*": false,
	} {
		if err := Pattern(p).Check(); (err == nil) != good {
			t.Errorf("%d bytes: got %v, want good: %v", len(p), err, good)
		}
	}
}

// The longest prefix of which a type can still have a part.
func TestTheLongestTypeIsMatchedByItsPrefix(t *testing.T) {
	prefix := strings.Repeat("a", 126)
	if longest := prefix + ".b"; CheckType(longest) != nil || !Pattern(prefix+".*").Matches(longest) {
		t.Errorf("%d bytes are not matched", len(longest))
	}
}

func TestNormalizingChangesNeitherWhatIsMatchedNorItself(t *testing.T) {
	patterns := rapid.SliceOfN(rapid.SampledFrom([]Pattern{"*", "a", "a.*", "a.b", "a.b.*", "a.b.c", "ab", "ab.*", "b", "b.*"}), 0, 6)
	types := []string{"a", "a.b", "a.b.c", "a.b.c.d", "ab", "ab.c", "b", "b.a", "c"}
	rapid.Check(t, func(t *rapid.T) {
		given := patterns.Draw(t, "patterns")
		before := slices.Clone(given)
		normal := NormalizePatterns(given)
		if !slices.Equal(given, before) {
			t.Errorf("the argument was changed from %v to %v", before, given)
		}
		if again := NormalizePatterns(normal); !slices.Equal(again, normal) {
			t.Errorf("%v becomes %v", normal, again)
		}
		for _, kind := range types {
			wants := func(all []Pattern) bool { return (&Receiver{Patterns: all}).Wants(kind, "") }
			if wants(given) != wants(normal) {
				t.Errorf("%v and %v do not agree about %s", given, normal, kind)
			}
		}
	})
}
