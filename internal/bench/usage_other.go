//go:build !linux

package bench

import (
	"os/exec"
	"time"
)

// Elsewhere than on Linux nobody is asked what other processes use.

func processCPU(int) (own, ended time.Duration, parent int, ok bool) { return }
func postmasterOf(int) (pid int, ok bool)                            { return }
func familyCPU(int) (used time.Duration, ok bool)                    { return }
func peakMemory(int) (bytes float64, ok bool)                        { return }
func loadAverage() float64                                           { return 0 }
func dieWithParent(*exec.Cmd)                                        {}
