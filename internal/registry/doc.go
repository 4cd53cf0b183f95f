// Package registry knows who is told, where, and on what terms: receivers and their
// targets. It is the sole writer of the tables receivers, targets, secrets, lanes and
// registry.
//
// Each process matches events against a [Book], its memory of the registry. Every write
// here draws a new revision in its transaction; whoever uses the book compares revisions
// in the very statement that relies on it, so a declaration is in force from the first
// fire, and in every process, after it was answered.
package registry
