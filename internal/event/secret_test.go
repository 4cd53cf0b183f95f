package event

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestEverySecretWithinTheBoundsIsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Secret(rapid.SliceOfN(rapid.Byte(), MinSecret, MaxSecret).Draw(t, "secret"))
		back, err := ParseSecret(s.Reveal())
		if err != nil || !bytes.Equal(back, s) {
			t.Errorf("%d bytes are read back as %d, %v", len(s), len(back), err)
		}
	})
}

func TestSecretsInAnyOtherSpellingAreRefused(t *testing.T) {
	text := Secret(bytes.Repeat([]byte{0xfb, 0xef, 0xbe}, 10)).Reveal()
	if !strings.Contains(text, "++++") {
		t.Fatalf("%s does not show the alphabet", text)
	}
	trailing := "whsec_" + strings.Repeat("A", 42) + "B=" // two bits are set that no byte holds
	for _, bad := range []string{
		strings.ReplaceAll(text, "+", "-"), " " + text, text + " ", text + "\r\n", text + "=", strings.ToUpper(text[:6]) + text[6:], trailing,
	} {
		if _, err := ParseSecret(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

func TestASecretIsHiddenFromPlainTextLogsAndPointers(t *testing.T) {
	s := Secret("0123456789abcdef0123456789abcdef")
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "secret", s, "secrets", []Secret{s})
	all := log.String() + fmt.Sprint(&s, []Secret{s}, map[string]Secret{"a": s}) + fmt.Sprintf("%#v %+v %x", []Secret{s}, Target{Signers: []*Signer{s.Signer()}}, s) + fmt.Sprintf("%v %#v %+v", s.Signer(), s.Signer(), *s.Signer())
	for _, shown := range []string{string(s[:16]), s.Reveal()[6:], "48 49", "0x30", fmt.Sprintf("%x", string(s))} {
		if strings.Contains(all, shown) {
			t.Errorf("%q is in %s", shown, all)
		}
	}
}
