package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/pg"
)

// Receiver is a declared receiver as it stands.
type Receiver struct {
	ID          int32
	Key         string
	Declaration json.RawMessage
	Version     int // of the declaration; the ETag
	PausedAt    *time.Time
	CreatedAt   time.Time
	UpdatedAt   time.Time
	TargetID    event.TargetID
	URL         string
}

// Declared is the declaration as it was written, with its destination. Of one that
// cannot be read it is what it wants, with the reason.
func (r *Receiver) Declared() (d Declaration, flaw string) {
	d, flaw = readDeclaration(r.Declaration)
	if !d.FanOut {
		d.URL = r.URL
	}
	return d, flaw
}

// Errors of the registry.
var (
	ErrNotFound = errors.New("there is no such receiver")
	// ErrChanged says that the receiver's version is not the one the caller has seen.
	ErrChanged = errors.New("the receiver was changed meanwhile")
	// ErrSecretSet says that a declaration gave a secret other than the live ones.
	ErrSecretSet = errors.New("the receiver has another signing secret already")
	// ErrUnreadable says that what is stored cannot be amended, as it cannot be read.
	ErrUnreadable = errors.New("the stored declaration cannot be read")
	// ErrKeyTaken says that a key is, or was, another receiver's.
	ErrKeyTaken = errors.New("another receiver has or had that key")
)

// Put is what declaring a receiver came to.
type Put struct {
	Receiver Receiver
	Created  bool
	// Secret is the signing secret where this call made it; it is shown once.
	Secret event.Secret
}

// Declare writes a receiver under its key: idempotent and complete, so that what the
// declaration leaves out is back at its default. The declaration must have passed
// Check. ifVersion, unless 0, is the version that must be in force, else the answer
// is [ErrChanged]; the same declaration again changes nothing.
func (r *Registry) Declare(ctx context.Context, key string, d Declaration, ifVersion int) (put Put, err error) {
	return r.declare(ctx, key, ifVersion, func(*Receiver) (Declaration, error) { return d, nil })
}

// Amend is Declare of what amend makes of the declaration in force. Two that amend at
// once do so one after the other, so neither undoes the other. amend must check what it
// makes. It answers [ErrNotFound] where there is no such receiver, and [ErrUnreadable]
// where its declaration cannot be read.
func (r *Registry) Amend(ctx context.Context, key string, ifVersion int, amend func(Declaration) (Declaration, error)) (Put, error) {
	return r.declare(ctx, key, ifVersion, func(old *Receiver) (Declaration, error) {
		if old == nil {
			return Declaration{}, ErrNotFound
		}
		d, flaw := old.Declared()
		if flaw != "" {
			return Declaration{}, ErrUnreadable
		}
		return amend(d)
	})
}

func (r *Registry) declare(ctx context.Context, key string, ifVersion int, make func(old *Receiver) (Declaration, error)) (put Put, err error) {
	err = r.write(ctx, func(tx pgx.Tx, revision int64) error {
		old, err := find(ctx, tx, key)
		found := err == nil
		var before *Receiver
		if found {
			before = &old
		}
		switch {
		case err != nil && !errors.Is(err, ErrNotFound):
			return err
		case notAt(ifVersion, found, old.Version):
			return ErrChanged
		}
		d, err := make(before)
		if err != nil {
			return err
		}
		if err := findFunction(ctx, tx, &d); err != nil {
			return err
		}
		stored, err := storedForm(d)
		if err != nil {
			return err
		}
		if found && (d.FanOut || old.URL == d.URL) && sameJSON(old.Declaration, stored) {
			if err := r.sameSecret(ctx, tx, old.TargetID, d.Secret); err != nil {
				return err
			}
			put = Put{Receiver: old}
			return errUnchanged
		}
		if err := r.replace(ctx, tx, key, d, stored, found, revision, &put); err != nil {
			return err
		}
		return r.tellReceiver(ctx, tx, "put-receiver", before, &put.Receiver)
	})
	if errors.Is(err, errUnchanged) {
		err = nil
	}
	return put, err
}

// AnyVersion is for whoever asks that there be something, at whatever version.
const AnyVersion = -1

// notAt reports whether what is there is not what the caller asks for: 0 asks for nothing.
func notAt(ifVersion int, found bool, version int) bool {
	return ifVersion != 0 && (!found || ifVersion != AnyVersion && version != ifVersion)
}

// errUnchanged rolls a write back that had nothing to write, so that no revision is
// drawn and nobody reloads.
var errUnchanged = errors.New("nothing to change")

func (r *Registry) replace(ctx context.Context, tx pgx.Tx, key string, d Declaration, stored []byte, found bool, revision int64, put *Put) error {
	var lane, id int32
	if err := tx.QueryRow(ctx, sqlKeepLane, pg.Args{"name": d.lane(), "revision": revision}).Scan(&lane); err != nil {
		return fmt.Errorf("keep lane %s: %w", d.lane(), err)
	}
	if err := tx.QueryRow(ctx, sqlPutReceiver, pg.Args{"key": key, "lane": lane, "declaration": stored, "revision": revision}).Scan(&id); err != nil {
		return fmt.Errorf("put receiver %s: %w", key, err)
	}
	secret, err := r.putOwn(ctx, tx, id, d)
	if err != nil {
		return err
	}
	now, err := find(ctx, tx, key)
	if err != nil {
		return err
	}
	*put = Put{Receiver: now, Created: !found, Secret: secret}
	return nil
}

// putOwn writes a receiver's own address. A new one gets the given secret, or one of the
// service's making; one that exists keeps its own, as changing that is a rotation. A
// receiver with targets has no address of its own: what was owed to an earlier one is
// still delivered there.
func (r *Registry) putOwn(ctx context.Context, tx pgx.Tx, id int32, d Declaration) (event.Secret, error) {
	if d.FanOut {
		return nil, r.keepTargetKeys(ctx, tx, id, d.Ways())
	}
	own := []NamedTarget{{Name: "", TargetDeclaration: TargetDeclaration{URL: d.URL, Secret: d.Secret}}}
	known, err := knownTargets(ctx, tx, id, own)
	if err != nil {
		return nil, err
	}
	revision, err := currentRevision(ctx, tx)
	if err != nil {
		return nil, err
	}
	puts, err := r.putTargets(ctx, tx, &Receiver{ID: id}, d.Ways(), own, known, revision)
	if err != nil && !errors.Is(err, errUnchanged) {
		return nil, err
	}
	if err := r.keepKeys(ctx, tx, puts[0].Target.ID, d.Ways()); err != nil {
		return nil, err
	}
	return puts[0].Secret, nil
}

// keepKeys gives an address a key pair where it is to sign with one and has none.
func (r *Registry) keepKeys(ctx context.Context, tx pgx.Tx, id event.TargetID, ways []event.Signature) error {
	if !slices.Contains(ways, event.SignV1a) {
		return nil
	}
	live, err := r.liveSecrets(ctx, tx, id, event.SignV1a)
	if err != nil || len(live) > 0 {
		return err
	}
	return r.succeed(ctx, tx, id, event.SignV1a, newSecret(), 0)
}

// keepTargetKeys is keepKeys for each target of a receiver, all at once.
func (r *Registry) keepTargetKeys(ctx context.Context, tx pgx.Tx, receiver int32, ways []event.Signature) error {
	if !slices.Contains(ways, event.SignV1a) {
		return nil
	}
	rows, err := tx.Query(ctx, sqlKeylessTargets, pg.Args{"receiver": receiver})
	if err != nil {
		return fmt.Errorf("look for targets without keys: %w", err)
	}
	targets, err := pgx.CollectRows(rows, pgx.RowTo[int32])
	if err != nil {
		return fmt.Errorf("look for targets without keys: %w", err)
	}
	sealed := make([][]byte, len(targets))
	for i, id := range targets {
		sealed[i] = r.o.Sealer.Seal(event.TargetID(id), newSecret())
	}
	if _, err := tx.Exec(ctx, sqlAddSecrets, pg.Args{"targets": targets, "kind": event.SignV1a, "sealed": sealed}); err != nil {
		return fmt.Errorf("add signing keys: %w", err)
	}
	return nil
}

func (r *Registry) sameSecret(ctx context.Context, tx pgx.Tx, target event.TargetID, given *string) error {
	if given == nil {
		return nil
	}
	rows, err := tx.Query(ctx, sqlLiveSecrets, pg.Args{"target": int32(target), "kind": event.SignV1})
	if err != nil {
		return fmt.Errorf("read the live secrets: %w", err)
	}
	live, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
	if err != nil {
		return fmt.Errorf("read the live secrets: %w", err)
	}
	for _, sealed := range live {
		if secret, err := r.o.Sealer.Open(target, sealed); err == nil && secret.Reveal() == *given {
			return nil
		}
	}
	return ErrSecretSet
}

// Find is the receiver of that key, or [ErrNotFound].
func (r *Registry) Find(ctx context.Context, key string) (Receiver, error) {
	return find(ctx, r.pool, key)
}

type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func find(ctx context.Context, q querier, key string) (Receiver, error) {
	rows, err := q.Query(ctx, sqlFindReceiver, pg.Args{"key": key})
	if err != nil {
		return Receiver{}, fmt.Errorf("find receiver %s: %w", key, err)
	}
	found, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[Receiver])
	if errors.Is(err, pgx.ErrNoRows) {
		return Receiver{}, ErrNotFound
	}
	if err != nil {
		return Receiver{}, fmt.Errorf("find receiver %s: %w", key, err)
	}
	return found, nil
}

// List is up to limit receivers whose keys come after the given one, in order; unless
// tenant is "", those of that tenant alone.
func (r *Registry) List(ctx context.Context, tenant, after string, limit int) ([]Receiver, error) {
	rows, err := r.pool.Query(ctx, sqlListReceivers, pg.Args{"tenant": pg.OrNull(tenant), "after": after, "limit": limit})
	if err != nil {
		return nil, fmt.Errorf("list receivers: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByName[Receiver])
	if err != nil {
		return nil, fmt.Errorf("list receivers: %w", err)
	}
	return list, nil
}

// Remove deletes a receiver. agree is called in the same transaction with the targets
// that are gone, and may refuse, which leaves everything as it was. No fire is under way
// that would still owe them something. The targets come back, for what they are owed to
// be ended.
func (r *Registry) Remove(ctx context.Context, key string, ifVersion int, agree func(ctx context.Context, tx pgx.Tx, targets []event.TargetID) error) (gone []event.TargetID, err error) {
	return gone, r.writeFenced(ctx, func(tx pgx.Tx, revision int64) error {
		old, err := find(ctx, tx, key)
		if err != nil {
			return err
		}
		rows, err := tx.Query(ctx, sqlRemoveReceiver, pg.Args{"key": key, "version": ifVersion, "revision": revision})
		if err != nil {
			return fmt.Errorf("remove receiver %s: %w", key, err)
		}
		ids, err := pgx.CollectRows(rows, pgx.RowTo[int32])
		if err != nil {
			return fmt.Errorf("remove receiver %s: %w", key, err)
		}
		if len(ids) == 0 {
			return ErrChanged
		}
		gone = make([]event.TargetID, len(ids))
		for i, id := range ids {
			gone[i] = event.TargetID(id)
		}
		if err := agree(ctx, tx, gone); err != nil {
			return err
		}
		return r.tellReceiver(ctx, tx, "delete-receiver", &old, nil)
	})
}

// Pause stops new attempts at a receiver, or lets them go on. What it is owed stays
// owed.
func (r *Registry) Pause(ctx context.Context, key string, paused bool) (Receiver, error) {
	var now Receiver
	err := r.write(ctx, func(tx pgx.Tx, revision int64) error {
		old, err := find(ctx, tx, key)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, sqlPauseReceiver, pg.Args{"key": key, "paused": paused, "revision": revision}); err != nil {
			return fmt.Errorf("pause receiver %s: %w", key, err)
		}
		if now, err = find(ctx, tx, key); err != nil {
			return err
		}
		return r.tellReceiver(ctx, tx, pauseAction("receiver", paused), &old, &now)
	})
	return now, err
}

func pauseAction(what string, paused bool) string {
	if paused {
		return "pause-" + what
	}
	return "resume-" + what
}

// Rename gives a receiver another key, in one step: what it is owed, and all that is
// kept of it, goes with it. A key that another receiver has or had is refused, as the
// history under it is that one's.
func (r *Registry) Rename(ctx context.Context, key, to string) (Receiver, error) {
	var now Receiver
	err := r.write(ctx, func(tx pgx.Tx, revision int64) error {
		same, err := find(ctx, tx, key)
		if err != nil {
			return err
		}
		if key == to {
			now = same
			return nil
		}
		tag, err := tx.Exec(ctx, sqlRenameReceiver, pg.Args{"key": key, "to": to, "revision": revision})
		if err != nil {
			return fmt.Errorf("rename receiver %s: %w", key, err)
		}
		if tag.RowsAffected() == 0 {
			return ErrKeyTaken
		}
		if now, err = find(ctx, tx, to); err != nil {
			return err
		}
		return r.tell(ctx, tx, Change{
			Action: "rename-receiver", Object: "receivers/" + key, Tenant: same.tenant(),
			Before: map[string]any{"key": key}, After: map[string]any{"key": to},
		})
	})
	return now, err
}

// Erase forgets every receiver; alongside is run in the same transaction. It is for
// tests.
func (r *Registry) Erase(ctx context.Context, alongside func(tx pgx.Tx) error) error {
	return r.write(ctx, func(tx pgx.Tx, revision int64) error {
		if _, err := tx.Exec(ctx, sqlErase, pg.Args{"revision": revision}); err != nil {
			return fmt.Errorf("erase the registry: %w", err)
		}
		return alongside(tx)
	})
}

func currentRevision(ctx context.Context, tx pgx.Tx) (revision int64, err error) {
	if err := tx.QueryRow(ctx, sqlCurrentRevision).Scan(&revision); err != nil {
		return 0, fmt.Errorf("read the registry's revision: %w", err)
	}
	return revision, nil
}

// write runs one change of the registry in a transaction that holds its next
// revision.
func (r *Registry) write(ctx context.Context, change func(tx pgx.Tx, revision int64) error) error {
	return r.inTurn(ctx, "", change)
}

// writeFenced is write once no fire is under way, and none begins meanwhile: fires hold
// the fence shared. What is decided by looking at what is owed needs it.
func (r *Registry) writeFenced(ctx context.Context, change func(tx pgx.Tx, revision int64) error) error {
	return r.inTurn(ctx, pg.FenceSQL, change)
}

// turnWait is how long a change waits for others': they hold the registry's row, and a
// pool must not fill up with those who wait for it.
const turnWait = 3 * time.Second

func (r *Registry) inTurn(ctx context.Context, before string, change func(tx pgx.Tx, revision int64) error) error {
	for pause := 10 * time.Millisecond; ; pause *= 2 {
		err := r.turn(ctx, before, change)
		if !pg.Retryable(err) || pause > time.Second {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return err
		}
	}
}

func (r *Registry) turn(ctx context.Context, before string, change func(tx pgx.Tx, revision int64) error) error {
	return pgx.BeginFunc(ctx, r.pool, func(tx pgx.Tx) error {
		var revision int64
		if _, err := tx.Exec(ctx, `SELECT set_config('lock_timeout', $1, true)`, strconv.FormatInt(turnWait.Milliseconds(), 10)); err != nil {
			return fmt.Errorf("bound the wait for others: %w", err)
		}
		if before != "" {
			if _, err := tx.Exec(ctx, before); err != nil {
				return fmt.Errorf("wait for fires under way: %w", err)
			}
		}
		if err := tx.QueryRow(ctx, sqlNextRevision).Scan(&revision); err != nil {
			return fmt.Errorf("draw the next revision of the registry: %w", err)
		}
		return change(tx, revision)
	})
}

// storedForm is the declaration without its destination and secret, which have
// columns of their own.
func storedForm(d Declaration) ([]byte, error) {
	d.URL, d.Secret = "", nil
	d.Events = event.NormalizePatterns(d.Events)
	stored, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("encode the declaration: %w", err)
	}
	return stored, nil
}

// sameJSON compares a declaration as the database returns it with one as written.
func sameJSON(stored, written []byte) bool {
	var a, b Declaration
	if json.Unmarshal(stored, &a) != nil || json.Unmarshal(written, &b) != nil {
		return false
	}
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}
