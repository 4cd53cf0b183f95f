// Package task hands claims over to worker processes through NATS JetStream.
//
// PostgreSQL stays the only truth: a message is no more than the proof of a claim, which
// a worker takes in one conditional update. One that is lost costs its lease, one that
// comes twice, or late, is the proof of nothing.
package task
