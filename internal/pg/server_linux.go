package pg

import "syscall"

func setParentDeathSignal(attr *syscall.SysProcAttr) { attr.Pdeathsig = fastShutdown }
