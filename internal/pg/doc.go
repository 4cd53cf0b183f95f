// Package pg is the way to PostgreSQL: pools, migrations, wake-ups between processes,
// what an error means, and the private server that `eventsvc dev` and the tests start.
// It knows nothing of events.
package pg
