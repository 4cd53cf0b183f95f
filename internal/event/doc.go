// Package event is the dictionary: one word, one file, standard library only.
//
// It holds the nouns that every other room speaks of (event, receiver, target,
// delivery, claim, attempt, verdict, curve) and the one pure judgement, [Settle],
// that says what becomes of a delivery after an attempt. It does no I/O, reads no
// clock and draws no random number: what it needs is passed in, so that each rule
// can be tested as arithmetic.
package event
