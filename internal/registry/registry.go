package registry

import (
	"github.com/jackc/pgx/v5/pgxpool"
)

// Registry reads and writes the declarations.
type Registry struct {
	pool    *pgxpool.Pool
	o       Options
	witness Witness // or nil
}

// Options are what the registry needs to know of the process. Sealer and CheckURL
// must be set.
type Options struct {
	Defaults Defaults
	Sealer   *Sealer
	// CheckURL is the egress policy's view of an address at the time it is declared.
	CheckURL func(url string) error
	// FunctionSchemas are those whose functions may be receivers.
	FunctionSchemas []string
}

// New makes a registry over the pool.
func New(pool *pgxpool.Pool, o Options) *Registry { return &Registry{pool: pool, o: o} }

// Defaults are the terms of receivers that declare none.
func (r *Registry) Defaults() Defaults { return r.o.Defaults }

// CheckURL is what the egress policy says of an address that is to be declared.
func (r *Registry) CheckURL(url string) error { return r.o.CheckURL(url) }
