package registry_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/pgtest"
	"github.com/eventsvc/eventsvc/internal/registry"
)

// sealedWith is a registry of a process with those sealing keys.
func sealedWith(t testing.TB, pool *pgxpool.Pool, keys ...[]byte) *registry.Registry {
	t.Helper()
	return registry.New(pool, registry.Options{Sealer: sealer(t, keys...), Defaults: defaults, CheckURL: func(string) error { return nil }})
}

func secretsOf(t testing.TB, r *registry.Registry, name string) (secrets []event.Secret) {
	t.Helper()
	target := book(t, r).Find(name, "")
	if target == nil {
		return nil
	}
	for _, s := range target.Signers {
		secrets = append(secrets, s.Secret)
	}
	return secrets
}

func TestSecretsOfEveryAgeAreReadAfterKeysAreGiven(t *testing.T) {
	pool := pgtest.New(t)
	open := declare(t, sealedWith(t, pool), "open").Secret
	old := declare(t, sealedWith(t, pool, key(1)), "old").Secret
	now := sealedWith(t, pool, key(2), key(1))
	fresh := declare(t, now, "fresh").Secret
	for name, want := range map[string]event.Secret{"open": open, "old": old, "fresh": fresh} {
		if got := secretsOf(t, now, name); len(got) != 1 || !bytes.Equal(got[0], want) {
			t.Errorf("%s: %d secrets", name, len(got))
		}
	}
	if got := secretsOf(t, sealedWith(t, pool, key(2)), "fresh"); len(got) != 1 || !bytes.Equal(got[0], fresh) {
		t.Error("the newest key alone does not open what it sealed")
	}
}

func TestWhileASecretIsRotatedBothSignNewestFirst(t *testing.T) {
	pool := pgtest.New(t)
	r := over(t, pool)
	put := declare(t, r, "k")
	next := event.Secret(bytes.Repeat([]byte{7}, 32))
	for _, sql := range []string{
		`UPDATE eventsvc.secrets SET expires_at = now() + interval '1 day' WHERE target_id = $1 AND $2::bytea IS NOT NULL`,
		`INSERT INTO eventsvc.secrets (target_id, sealed) VALUES ($1, $2)`,
	} {
		if _, err := pool.Exec(t.Context(), sql, put.Receiver.TargetID, sealer(t, key(1)).Seal(put.Receiver.TargetID, next)); err != nil {
			t.Fatal(err)
		}
	}
	if got := secretsOf(t, r, "k"); len(got) != 2 || !bytes.Equal(got[0], next) || !bytes.Equal(got[1], put.Secret) {
		t.Fatalf("%d secrets are live", len(got))
	}
	for _, live := range []event.Secret{next, put.Secret} {
		if _, err := r.Declare(t.Context(), "k", declaration(func(d *registry.Declaration) { d.Secret = new(live.Reveal()) }), 0); err != nil {
			t.Errorf("a live secret in a declaration: %v", err)
		}
	}
	if _, err := pool.Exec(t.Context(), `UPDATE eventsvc.secrets SET expires_at = now() WHERE expires_at < 'infinity'`); err != nil {
		t.Fatal(err)
	}
	if got := secretsOf(t, r, "k"); len(got) != 1 || !bytes.Equal(got[0], next) {
		t.Errorf("after the overlap %d secrets are live", len(got))
	}
	if _, err := r.Declare(t.Context(), "k", declaration(func(d *registry.Declaration) { d.Secret = new(put.Secret.Reveal()) }), 0); !errors.Is(err, registry.ErrSecretSet) {
		t.Errorf("an expired secret in a declaration: %v", err)
	}
}

// Two boxes of one secret must not show that it is one.
func TestASecretIsNeverSealedTheSameWayTwice(t *testing.T) {
	s, secret := sealer(t, key(1)), event.Secret(bytes.Repeat([]byte{9}, 32))
	if bytes.Equal(s.Seal(5, secret), s.Seal(5, secret)) {
		t.Error("the same box twice")
	}
}

func TestEveryChangedByteOfABoxIsNoticed(t *testing.T) {
	s, secret := sealer(t, key(1)), event.Secret(bytes.Repeat([]byte{9}, 32))
	box := s.Seal(5, secret)
	for i := 1; i < len(box); i++ {
		changed := bytes.Clone(box)
		changed[i] ^= 1
		if _, err := s.Open(5, changed); !errors.Is(err, registry.ErrSealed) {
			t.Errorf("byte %d: %v", i, err)
		}
	}
	for n := range len(box) {
		if _, err := s.Open(5, box[:n]); !errors.Is(err, registry.ErrSealed) {
			t.Errorf("the first %d bytes: %v", n, err)
		}
	}
}

func TestSealingKeysAre32Bytes(t *testing.T) {
	for text, good := range map[string]bool{
		"AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=": true,
		"AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQ==": false,
		"AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEB": false,
		"AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE":  false,
		"": false, strings.Repeat("k", 32): false,
	} {
		k, err := registry.ParseSealKey(text)
		if (err == nil) != good || good && !bytes.Equal(k, key(1)) {
			t.Errorf("%q: %v, %v", text, k, err)
		}
		if err != nil && text != "" && strings.Contains(err.Error(), text) {
			t.Errorf("the error repeats the key: %v", err)
		}
	}
	if _, err := registry.NewSealer(key(1), []byte("short")); err == nil || !strings.Contains(err.Error(), "key 2") {
		t.Errorf("a short key: %v", err)
	}
	if sealer(t).Sealing() || !sealer(t, key(1)).Sealing() {
		t.Error("sealing is not told from leaving open")
	}
}
