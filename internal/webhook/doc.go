// Package webhook is the courier: it renders an event, signs it, guards the address
// that is dialled, POSTs once, and reads the answer as a verdict.
//
// It keeps nothing and decides nothing about the delivery: what a verdict means for it
// is event.Settle's to say.
package webhook
