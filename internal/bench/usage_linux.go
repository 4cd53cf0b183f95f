package bench

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// tick is the unit of times in /proc: the kernel has shown them in hundredths on every
// architecture since 2.6.
const tick = 10 * time.Millisecond

// processCPU is what a process has used by itself, and what those of its children have
// that have ended.
func processCPU(pid int) (own, ended time.Duration, parent int, ok bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, 0, false
	}
	// The name stands in parentheses and may hold anything.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 15 {
		return 0, 0, 0, false
	}
	at := func(i int) time.Duration {
		n, _ := strconv.ParseInt(fields[i], 10, 64)
		return time.Duration(n) * tick
	}
	parent, _ = strconv.Atoi(fields[1])
	return at(11) + at(12), at(13) + at(14), parent, true
}

// postmasterOf is the parent of a backend, where that is a process of this machine.
func postmasterOf(backend int) (pid int, ok bool) {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", backend))
	if err != nil || !strings.HasPrefix(string(name), "postgres") {
		return 0, false
	}
	_, _, parent, ok := processCPU(backend)
	return parent, ok
}

// familyCPU is what a process has used with all of its children.
func familyCPU(pid int) (time.Duration, bool) {
	own, ended, _, ok := processCPU(pid)
	sum := own + ended
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		child, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if used, _, parent, alive := processCPU(child); alive && parent == pid {
			sum += used
		}
	}
	return sum, ok
}

// peakMemory is the most that a process has had resident, in bytes.
func peakMemory(pid int) (float64, bool) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, false
	}
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	line, _, _ := strings.Cut(after, "\n")
	kilobytes, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(line), "kB")), 64)
	return kilobytes * 1024, err == nil
}

func loadAverage() float64 {
	text, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(text), " ")
	load, _ := strconv.ParseFloat(first, 64)
	return load
}

// dieWithParent ends the service when this process is gone, however it went.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
