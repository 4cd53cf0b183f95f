//go:build unix

package pg

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// PostgreSQL's own signals: SIGINT disconnects clients and shuts down cleanly, SIGQUIT
// leaves recovery to the next start.
const (
	fastShutdown      = syscall.SIGINT
	immediateShutdown = syscall.SIGQUIT
)

// account is the user that the server runs as: ourselves, unless we are root, as whom
// PostgreSQL refuses to run.
type account struct {
	uid, gid uint32
	other    bool
}

func serverUser() (account, error) {
	if os.Geteuid() != 0 {
		return account{uid: uint32(os.Geteuid()), gid: uint32(os.Getegid())}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errUID := strconv.ParseUint(u.Uid, 10, 32)
		gid, errGID := strconv.ParseUint(u.Gid, 10, 32)
		if errUID == nil && errGID == nil && uid != 0 {
			return account{uid: uint32(uid), gid: uint32(gid), other: true}, nil
		}
	}
	return account{}, errors.New("PostgreSQL does not run as root, and there is no user postgres or nobody to run it as; start as another user, or set DATABASE_URL")
}

// canReach reports whether the account may pass through every directory above dir.
func (a account) canReach(dir string) bool {
	if !a.other {
		return true
	}
	for parent := filepath.Dir(dir); ; parent = filepath.Dir(parent) {
		info, err := os.Stat(parent)
		if err != nil {
			return false
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); ok && !a.passes(info.Mode(), stat) {
			return false
		}
		if parent == filepath.Dir(parent) {
			return true
		}
	}
}

func (a account) passes(mode os.FileMode, stat *syscall.Stat_t) bool {
	switch {
	case stat.Uid == a.uid:
		return mode&0o100 != 0
	case stat.Gid == a.gid:
		return mode&0o010 != 0
	}
	return mode&0o001 != 0
}

// own gives a directory to the account.
func (a account) own(dir string) error {
	if !a.other {
		return nil
	}
	return os.Chown(dir, int(a.uid), int(a.gid))
}

// runs makes a command run as the account, in a process group of its own: a Ctrl-C at
// the terminal is for us, and we stop the server in our own time.
func (a account) runs(cmd *exec.Cmd, dieWithParent bool) {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if a.other {
		attr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid}
	}
	if dieWithParent {
		setParentDeathSignal(attr)
	}
	cmd.SysProcAttr = attr
	cmd.Env = append(os.Environ(), "LC_ALL=C")
}

// run starts a command and waits for its end. The kernel takes the end of the starting
// thread for the end of the parent, so where the command is to die with us the thread is
// kept.
func run(cmd *exec.Cmd, keepThread bool, started chan<- error, done chan<- struct{}) {
	if keepThread {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
	}
	err := cmd.Start()
	started <- err
	if err == nil {
		cmd.Wait()
	}
	close(done)
}

// lockDir makes sure that only one process at a time runs a server in a directory. The
// lock ends with the process.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		holder, _ := os.ReadFile(f.Name())
		f.Close()
		return nil, fmt.Errorf("another eventsvc (process %s) uses %s; stop it, or choose another --data-dir", strings.TrimSpace(string(holder)), dir)
	}
	f.Truncate(0)
	fmt.Fprintln(f, os.Getpid())
	return f, nil
}

// stopLeftOver ends a server whose parent was killed: it still runs on the data, and
// nobody else can be its parent, as we hold the directory's lock.
func stopLeftOver(ctx context.Context, data string, log *slog.Logger) error {
	content, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return nil
	}
	first, _, _ := strings.Cut(string(content), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil || pid <= 1 || !servesFrom(pid, data) {
		return nil // stale: postgres itself sees to it
	}
	log.InfoContext(ctx, "stopping a database server that an earlier process left behind", "pid", pid)
	if err := syscall.Kill(pid, fastShutdown); err != nil {
		return fmt.Errorf("stop the server (process %d) that an earlier process left behind: %w", pid, err)
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for syscall.Kill(pid, 0) == nil {
		select {
		case <-ctx.Done():
			return fmt.Errorf("the server (process %d) that an earlier process left behind does not stop", pid)
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

// servesFrom reports whether a process is a postgres on that data directory.
func servesFrom(pid int, data string) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	out, err := exec.Command("ps", "-o", "args=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err != nil {
			return false
		}
		out = cmdline
	}
	return strings.Contains(string(out), "postgres") && strings.Contains(string(out), data)
}
