//go:build unix

package webhook

import (
	"net"
	"syscall"
)

// peeker looks at a connection without waiting.
type peeker struct {
	raw  syscall.RawConn
	look func(fd uintptr) bool
	dead *bool
}

func newPeeker(conn net.Conn) peeker {
	under, ok := conn.(syscall.Conn)
	if !ok {
		return peeker{}
	}
	raw, err := under.SyscallConn()
	if err != nil {
		return peeker{}
	}
	p := peeker{raw: raw, dead: new(bool)}
	p.look = func(fd uintptr) bool { *p.dead = !p.silentAt(fd); return true }
	return p
}

// silent reports whether a peer has neither closed its connection nor said anything on it,
// as far as is known here. Of one that cannot be looked at nothing is known.
func (p *peeker) silent() bool {
	return p.raw != nil && p.raw.Read(p.look) == nil && !*p.dead
}

func (p *peeker) silentAt(fd uintptr) bool {
	var one [1]byte
	_, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK)
	return err == syscall.EAGAIN || err == syscall.EWOULDBLOCK
}
