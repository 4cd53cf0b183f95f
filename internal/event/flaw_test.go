package event

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestFlawsAreAnErrorOnlyWhereThereAreAny(t *testing.T) {
	var flaws Flaws
	if err := flaws.Err(); err != nil {
		t.Errorf("no flaws are the error %v", err)
	}
	flaws.Add("/url", "is required")
	flaws.Add("/events/0", "must not be empty")
	err := flaws.Err()
	if err == nil || err.Error() != "/url is required; /events/0 must not be empty" {
		t.Errorf("got %v", err)
	}
	var found Flaws
	if !errors.As(err, &found) || len(found) != 2 || found[0].Pointer != "/url" {
		t.Errorf("the flaws are not found in their error: %v", found)
	}
}

// RFC 6901, section 4: ~1 is read first, then ~0.
func TestEveryPointerTokenIsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringOfN(rapid.RuneFrom([]rune("~/01a")), 0, 12, -1).Draw(t, "name")
		token := PointerToken(name)
		back := strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
		if back != name || strings.Contains(token, "/") {
			t.Errorf("%q becomes %q, which is read back as %q", name, token, back)
		}
	})
}
