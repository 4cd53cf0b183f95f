package webhook

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/eventsvc/eventsvc/internal/event"
)

func secret(t testing.TB, text string) event.Secret {
	t.Helper()
	s, err := event.ParseSecret(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The vector of the Standard Webhooks specification's own tests.
func TestSignatureMatchesTheSpecificationsVector(t *testing.T) {
	key := secret(t, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	got := sign(signers(key), nil, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", []byte(`{"test": 2432232314}`))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestEverySecretSignsNewestFirst(t *testing.T) {
	old, new := secret(t, "whsec_"+strings.Repeat("A", 32)), secret(t, "whsec_"+strings.Repeat("B", 32))
	both := sign(signers(new, old), nil, "id", "1", []byte("{}"))
	if want := sign(signers(new), nil, "id", "1", []byte("{}")) + " " + sign(signers(old), nil, "id", "1", []byte("{}")); both != want {
		t.Errorf("got %s, want %s", both, want)
	}
}

// v1a is Ed25519 over the same content, behind the secrets' signatures.
func TestAKeyPairSignsBesideTheSecrets(t *testing.T) {
	seed := make([]byte, ed25519.SeedSize)
	seed[0] = 7
	key := event.SigningKey(seed)
	got := strings.Split(sign(signers(secret(t, "whsec_"+strings.Repeat("A", 32))), []event.SigningKey{key}, "id", "1", []byte("{}")), " ")
	if len(got) != 2 || !strings.HasPrefix(got[0], "v1,") || !strings.HasPrefix(got[1], "v1a,") {
		t.Fatalf("got %q", got)
	}
	public, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(key.Public(), "whpk_"))
	if err != nil {
		t.Fatal(err)
	}
	signature, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(got[1], "v1a,"))
	if err != nil || !ed25519.Verify(public, []byte("id.1.{}"), signature) || ed25519.Verify(public, []byte("id.2.{}"), signature) {
		t.Errorf("the signature does not verify: %v", err)
	}
	if shown := fmt.Sprintf("%v %+v %#v %s %q", key, key, key, key, key); strings.Contains(shown, "7") {
		t.Errorf("the key shows itself: %s", shown)
	}
}

// Verify and the reference library agree on what is signed and what is not.
func TestVerifyAgreesWithTheReferenceLibrary(t *testing.T) {
	const text = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	oracle, err := standardwebhooks.NewWebhook(text)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	good := func() (http.Header, []byte) {
		body := []byte(`{"a":1}`)
		stamp := now.Unix()
		h := http.Header{}
		h.Set("webhook-id", "dlv_1")
		h.Set("webhook-timestamp", itoa(stamp))
		h.Set("webhook-signature", sign(signers(secret(t, text)), nil, "dlv_1", itoa(stamp), body))
		return h, body
	}
	for name, c := range map[string]struct {
		change func(http.Header, []byte) []byte
		says   string
	}{
		"as sent": {func(_ http.Header, b []byte) []byte { return b }, ""},
		"beside another": {func(h http.Header, b []byte) []byte {
			h.Set("webhook-signature", "v1,AAAA v2,x "+h.Get("webhook-signature"))
			return b
		}, ""},
		"body altered":          {func(_ http.Header, b []byte) []byte { return append(b, ' ') }, "not made with this secret"},
		"another id":            {func(h http.Header, b []byte) []byte { h.Set("webhook-id", "dlv_2"); return b }, "not made with this secret"},
		"timestamp moved":       {func(h http.Header, b []byte) []byte { h.Set("webhook-timestamp", itoa(now.Unix()-1)); return b }, "not made with this secret"},
		"timestamp too old":     {func(h http.Header, b []byte) []byte { h.Set("webhook-timestamp", itoa(now.Unix()-400)); return b }, "away from now"},
		"timestamp no number":   {func(h http.Header, b []byte) []byte { h.Set("webhook-timestamp", "NaN"); return b }, "no number"},
		"no id":                 {func(h http.Header, b []byte) []byte { h.Del("webhook-id"); return b }, "missing"},
		"no signature":          {func(h http.Header, b []byte) []byte { h.Del("webhook-signature"); return b }, "missing"},
		"another version alone": {func(h http.Header, b []byte) []byte { h.Set("webhook-signature", "v2,abc"); return b }, "no v1 signature"},
	} {
		h, body := good()
		body = c.change(h, body)
		err := Verify(h, body, now, secret(t, text).Signer())
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v, want %q", name, err, c.says)
		}
		if theirs := oracle.Verify(body, h); (theirs == nil) != (err == nil) {
			t.Errorf("%s: the reference library says %v, we say %v", name, theirs, err)
		}
	}
}

func TestOneSecretSignsForManyAtOnce(t *testing.T) {
	shared, own := event.Secret(strings.Repeat("k", 32)).Signer(), sync.WaitGroup{}
	for i := range 8 {
		own.Go(func() {
			for n := range 200 {
				body := bytes.Repeat([]byte{byte(i)}, n*i)
				mac := hmac.New(sha256.New, shared.Secret)
				mac.Write([]byte("id.1." + string(body)))
				want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
				if got := sign([]*event.Signer{shared}, nil, "id", "1", body); got != want {
					t.Errorf("%d bytes: got %s, want %s", len(body), got, want)
				}
			}
		})
	}
	own.Wait()
}

func signers(secrets ...event.Secret) (all []*event.Signer) {
	for _, s := range secrets {
		all = append(all, s.Signer())
	}
	return all
}

func BenchmarkSign(b *testing.B) {
	key, body := signers(make(event.Secret, 32)), make([]byte, 2048)
	b.ReportAllocs()
	for b.Loop() {
		sign(key, nil, "dlv_01jxkg2c8zf3v9e4m6r7t8w9ya", "1614265330", body)
	}
}
