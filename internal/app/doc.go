// Package app wires the rooms into a process: configuration from the environment, and
// the running of each command. The wiring is in run.go, to be read from top to bottom.
package app
