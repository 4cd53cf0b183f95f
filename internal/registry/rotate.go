package registry

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/pg"
)

// DefaultOverlap is for how long old secrets sign beside a new one.
const DefaultOverlap = 24 * time.Hour

// maxSecrets bounds the live secrets of one target, the new one among them.
const maxSecrets = 5

// Rotated is what a rotation came to.
type Rotated struct {
	Secret event.Secret // the new one; it is shown once
	Public string       // the new public key, where the target signs with one
}

// Rotate gives a target a new signing secret, and a new key pair where it has one. Until
// overlap has passed, the old ones sign too; zero ends them at once, as after a leak.
// given, unless nil, is the secret to use. The address is not checked again.
func (r *Registry) Rotate(ctx context.Context, receiver, target string, given event.Secret, overlap time.Duration) (Rotated, error) {
	var done Rotated
	err := r.write(ctx, func(tx pgx.Tx, revision int64) error {
		id, err := r.addressOf(ctx, tx, receiver, target)
		if err != nil {
			return err
		}
		tenant, err := r.tenantOf(ctx, tx, receiver, target)
		if err != nil {
			return err
		}
		done.Secret = given
		if given == nil {
			done.Secret = newSecret()
		}
		if err := r.succeed(ctx, tx, id, event.SignV1, done.Secret, overlap); err != nil {
			return err
		}
		keys, err := r.liveSecrets(ctx, tx, id, event.SignV1a)
		if err != nil {
			return err
		}
		if len(keys) > 0 {
			key := event.SigningKey(newSecret())
			done.Public = key.Public()
			if err := r.succeed(ctx, tx, id, event.SignV1a, key, overlap); err != nil {
				return err
			}
		}
		if _, err = tx.Exec(ctx, sqlTouchTarget, pg.Args{"target": int32(id), "revision": revision}); err != nil {
			return err
		}
		return r.tell(ctx, tx, toldSecret(receiver, target, event.Duration(overlap).String(), tenant))
	})
	if err != nil {
		return Rotated{}, err
	}
	return done, nil
}

// succeed puts a new secret before those that are there.
func (r *Registry) succeed(ctx context.Context, tx pgx.Tx, id event.TargetID, kind event.Signature, secret []byte, overlap time.Duration) error {
	args := pg.Args{"target": int32(id), "kind": kind, "overlap": overlap, "keep": maxSecrets - 1}
	if _, err := tx.Exec(ctx, sqlExpireSecrets, args); err != nil {
		return fmt.Errorf("let old secrets expire: %w", err)
	}
	args = pg.Args{"targets": []int32{int32(id)}, "kind": kind, "sealed": [][]byte{r.o.Sealer.Seal(id, secret)}}
	if _, err := tx.Exec(ctx, sqlAddSecrets, args); err != nil {
		return fmt.Errorf("add a secret: %w", err)
	}
	return nil
}

// addressOf is the number of a receiver's own address, or of one of its targets.
func (r *Registry) addressOf(ctx context.Context, q querier, receiver, target string) (event.TargetID, error) {
	if target != "" {
		t, err := r.findTarget(ctx, q, receiver, target)
		return t.ID, err
	}
	of, err := find(ctx, q, receiver)
	if err == nil && of.TargetID == 0 {
		return 0, ErrNoTarget
	}
	return of.TargetID, err
}

// tenantOf is whose a receiver, or one of its targets, is.
func (r *Registry) tenantOf(ctx context.Context, q querier, receiver, target string) (string, error) {
	if target != "" {
		t, err := r.findTarget(ctx, q, receiver, target)
		return t.tenant(), err
	}
	of, err := find(ctx, q, receiver)
	return of.tenant(), err
}

func (r *Registry) liveSecrets(ctx context.Context, q querier, id event.TargetID, kind event.Signature) ([][]byte, error) {
	rows, err := q.Query(ctx, sqlLiveSecrets, pg.Args{"target": int32(id), "kind": kind})
	if err != nil {
		return nil, fmt.Errorf("read the live secrets: %w", err)
	}
	sealed, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
	if err != nil {
		return nil, fmt.Errorf("read the live secrets: %w", err)
	}
	var live [][]byte
	for _, box := range sealed {
		secret, err := r.o.Sealer.Open(id, box)
		if err != nil {
			return nil, err
		}
		live = append(live, secret)
	}
	return live, nil
}

// PublicKeys are those that a target signs with, newest first, for receivers to verify
// v1a signatures with. None: it does not sign so.
func (r *Registry) PublicKeys(ctx context.Context, receiver, target string) ([]string, error) {
	id, err := r.addressOf(ctx, r.pool, receiver, target)
	if err != nil {
		return nil, err
	}
	keys := []string{}
	of, err := find(ctx, r.pool, receiver)
	if err != nil {
		return nil, err
	}
	if d, _ := of.Declared(); !slices.Contains(d.Ways(), event.SignV1a) {
		return keys, nil
	}
	live, err := r.liveSecrets(ctx, r.pool, id, event.SignV1a)
	if err != nil {
		return nil, err
	}
	for _, seed := range live {
		keys = append(keys, event.SigningKey(seed).Public())
	}
	return keys, nil
}

// Reseal seals every stored secret with the newest key, so that older ones can be taken
// away. It answers how many it sealed anew, and changes nothing where one cannot be
// opened.
func (r *Registry) Reseal(ctx context.Context) (n int, err error) {
	err = pgx.BeginFunc(ctx, r.pool, func(tx pgx.Tx) error {
		type boxed struct {
			ID       int32
			TargetID event.TargetID
			Sealed   []byte
		}
		rows, err := tx.Query(ctx, sqlAllSecrets)
		if err != nil {
			return fmt.Errorf("read the secrets: %w", err)
		}
		all, err := pgx.CollectRows(rows, pgx.RowToStructByName[boxed])
		if err != nil {
			return fmt.Errorf("read the secrets: %w", err)
		}
		for _, b := range all {
			if r.o.Sealer.Newest(b.Sealed) {
				continue
			}
			secret, err := r.o.Sealer.Open(b.TargetID, b.Sealed)
			if err != nil {
				return fmt.Errorf("open the secret of target %d: %w", b.TargetID, err)
			}
			if _, err := tx.Exec(ctx, sqlResealSecret, pg.Args{"id": b.ID, "sealed": r.o.Sealer.Seal(b.TargetID, secret)}); err != nil {
				return fmt.Errorf("seal a secret anew: %w", err)
			}
			n++
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}
