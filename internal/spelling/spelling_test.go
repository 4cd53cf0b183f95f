package spelling

import "testing"

func TestNearestNamesWhatWasProbablyMeant(t *testing.T) {
	known := []string{"type", "data", "tenant", "occurred_at", "give_up_after", "count_deferrals"}
	for name, want := range map[string]string{
		"Type": "type", "TYPE": "type", "tenat": "tenant", "occuredAt": "occurred_at", "giveUpAfter": "give_up_after",
		"tpye": "type", "count-deferral": "count_deferrals", "zebra": "", "": "",
	} {
		if got := Nearest(name, known); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", name, got, want)
		}
	}
}
