//go:build unix && !linux

package pg

import "syscall"

// setParentDeathSignal does nothing where the kernel has no such thing: a server left
// behind is stopped at the next start.
func setParentDeathSignal(*syscall.SysProcAttr) {}
