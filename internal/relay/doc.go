// Package relay turns what is owed into attempts: claim, attempt, record.
//
// It holds no SQL and no HTTP: the ledger claims and records, the courier attempts.
// A relay claims only what it can start at once, so a claim's lease is fresh when its
// attempt begins and nothing claimed waits in memory. Every target has its own quota,
// so one that is saturated, paused or failing never holds the others (P4).
package relay
