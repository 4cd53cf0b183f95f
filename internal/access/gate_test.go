package access

import "testing"

func TestTheGateOpensToTheOperatorsKeyAlone(t *testing.T) {
	g := NewGate("esk_0123456789abcdef")
	for header, open := range map[string]bool{
		"Bearer esk_0123456789abcdef": true, "bearer  esk_0123456789abcdef ": true,
		"": false, "Bearer": false, "Bearer ": false, "Bearer esk_0123456789abcde": false, "Bearer esk_0123456789abcdef0": false,
		"Basic esk_0123456789abcdef": false, "esk_0123456789abcdef": false,
	} {
		if err := g.Check(header); (err == nil) != open {
			t.Errorf("%q: %v", header, err)
		}
	}
	if err := NewGate("").Check(""); err != nil {
		t.Errorf("an open gate: %v", err)
	}
}
