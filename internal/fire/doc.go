// Package fire writes facts down, once per key and atomically: the key, the event and
// all that is owed for it, in one transaction. It is the sole writer of the tables
// fire_keys and events.
//
// Concurrent fires share a commit. A [Desk] takes whatever queued up while the last
// commit was in flight and writes it as one batch; every caller gets its own answer,
// and one caller's conflict or bad data never fails another's fire. There is no timer:
// a lone fire is written at once.
package fire
