// Package relay turns what is owed into attempts: claim, attempt, record.
//
// It holds no SQL and no HTTP: the ledger claims and records, the courier attempts.
// A relay claims what it can start at once, and for a quick target a tenth of a second
// ahead, so a claim's lease is fresh when its attempt begins. Every target has its own
// quota, so one that is saturated, paused or failing never holds the others (P4).
package relay
