// Package api is the HTTP face: it reads requests strictly, calls the rooms below and
// writes what they answer. One resource, one file. It decides nothing about events and
// deliveries; problem.go is the only place that turns errors into answers.
package api
