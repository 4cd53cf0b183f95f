// Package moment makes the requests of receivers without deliveries: those that are asked
// before an event is stored, and those that are told once it is committed. Nothing of it is stored, and nothing is tried again.
package moment
