package main

import (
	"testing"

	"github.com/spf13/cobra"
)

func TestEveryVerbIsNamedOnce(t *testing.T) {
	var look func(*cobra.Command)
	look = func(of *cobra.Command) {
		seen := map[string]bool{}
		for _, verb := range of.Commands() {
			if seen[verb.Name()] {
				t.Errorf("%s has %s twice", of.CommandPath(), verb.Name())
			}
			seen[verb.Name()] = true
			look(verb)
		}
	}
	look(root())
}
