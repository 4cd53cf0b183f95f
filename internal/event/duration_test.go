package event

import (
	"encoding/json"
	"testing"
	"time"
)

func TestDurationsCrossJSONAsText(t *testing.T) {
	in := struct {
		D *Duration `json:"d,omitempty"`
	}{}
	if err := json.Unmarshal([]byte(`{"d":"36h"}`), &in); err != nil || time.Duration(*in.D) != 36*time.Hour {
		t.Fatalf("got %v, %v", in.D, err)
	}
	out, err := json.Marshal(in)
	if err != nil || string(out) != `{"d":"36h"}` {
		t.Errorf("got %s, %v", out, err)
	}
	for _, bad := range []string{`{"d":""}`, `{"d":"-1s"}`, `{"d":90}`, `{"d":"90"}`} {
		if err := json.Unmarshal([]byte(bad), &in); err == nil {
			t.Errorf("%s was read as %v", bad, *in.D)
		}
	}
}
