// Package moment tells receivers without deliveries: those that are told once an event
// is committed. Nothing of it is stored, and nothing is tried again.
package moment
