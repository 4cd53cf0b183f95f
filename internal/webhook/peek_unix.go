//go:build unix

package webhook

import (
	"net"
	"syscall"
)

// peeker looks at a connection without waiting. Nil looks at one that cannot be looked at.
type peeker struct {
	raw  syscall.RawConn
	look func(fd uintptr) bool
	dead bool // when last looked at
}

func newPeeker(conn net.Conn) *peeker {
	under, ok := conn.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := under.SyscallConn()
	if err != nil {
		return nil
	}
	p := &peeker{raw: raw}
	p.look = func(fd uintptr) bool { p.dead = !p.silentAt(fd); return true }
	return p
}

// silent reports whether a peer has neither closed its connection nor said anything on it,
// as far as is known here. Of one that cannot be looked at nothing is known.
func (p *peeker) silent() bool { return p != nil && p.raw.Read(p.look) == nil && !p.dead }

func (p *peeker) silentAt(fd uintptr) bool {
	var one [1]byte
	_, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK)
	return err == syscall.EAGAIN || err == syscall.EWOULDBLOCK
}
