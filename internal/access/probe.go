package access

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/eventsvc/eventsvc/internal/pg"
)

// prober looks keys up in the database, for every call anew: a cache would let a revoked
// key in, or cost a look at a revision instead, which is no cheaper than the probe. Calls
// that arrive while a look-up is under way share the next one, so a process makes one at a
// time however many calls there are, and each answer was read after its call began. One
// call at a time pays one round trip, many at once a few microseconds each.
type prober struct {
	pool  *pgxpool.Pool
	turns chan struct{} // holds one token: whoever takes it looks up
	next  chan *round   // holds the round that calls join
}

// round is the calls of one look-up.
type round struct {
	wanted map[hash]bool
	done   chan struct{}
	found  map[hash]*Key
	err    error
}

// probeTimeout bounds one look-up. Whoever waited for it is told that the database is
// away.
const probeTimeout = 2 * time.Second

// useCoarseness is how exactly the last use of a key is known.
const useCoarseness = 5 * time.Minute

func newProber(pool *pgxpool.Pool) *prober {
	p := &prober{pool: pool, turns: make(chan struct{}, 1), next: make(chan *round, 1)}
	p.turns <- struct{}{}
	p.next <- newRound()
	return p
}

func newRound() *round { return &round{wanted: map[hash]bool{}, done: make(chan struct{})} }

// find is the key of a hash, or nil where it does not open.
func (p *prober) find(ctx context.Context, sum hash) (*Key, error) {
	r := <-p.next
	first := len(r.wanted) == 0
	r.wanted[sum] = true
	p.next <- r
	if first {
		go p.run(r)
	}
	select {
	case <-r.done:
		return r.found[sum], r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// run waits for the look-up under way, closes the round and looks up.
func (p *prober) run(r *round) {
	<-p.turns
	<-p.next
	p.next <- newRound()
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	var unnoted []int32
	r.found, unnoted, r.err = p.look(ctx, r.wanted)
	close(r.done)
	p.turns <- struct{}{}
	if len(unnoted) > 0 {
		// That a use is not noted harms nobody; the next call tries again.
		_, _ = p.pool.Exec(ctx, sqlNoteUse, pg.Args{"ids": unnoted})
	}
}

func (p *prober) look(ctx context.Context, wanted map[hash]bool) (found map[hash]*Key, unnoted []int32, err error) {
	hashes := make([][]byte, 0, len(wanted))
	for h := range wanted {
		hashes = append(hashes, h[:])
	}
	rows, err := p.pool.Query(ctx, sqlLiveKeys, pg.Args{"hashes": hashes, "coarse": useCoarseness})
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	found = make(map[hash]*Key, len(wanted))
	for rows.Next() {
		var k Key
		var sum []byte
		var scopes []string
		var stale bool
		if err := rows.Scan(&sum, &k.Number, (*[16]byte)(&k.ID), &k.Producer, &k.Owner, &k.Name, &scopes, &k.Tenant, &k.Rate.PerSecond, &k.Rate.Burst, &stale); err != nil {
			return nil, nil, err
		}
		k.Scopes = scopesOf(scopes)
		found[hash(sum)] = &k // a hash of 32 random bytes tells nothing by how long it is compared
		if stale {
			unnoted = append(unnoted, k.Number)
		}
	}
	return found, unnoted, rows.Err()
}
