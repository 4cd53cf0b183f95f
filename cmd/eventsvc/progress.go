package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// progress shows on a terminal how far a command has come, now and then. Elsewhere it
// shows nothing.
type progress struct {
	out  io.Writer
	verb string
	last time.Time
	any  bool
}

func newProgress(out io.Writer, verb string) *progress {
	if f, ok := out.(*os.File); !ok || !term.IsTerminal(int(f.Fd())) {
		out = nil
	}
	return &progress{out: out, verb: verb}
}

// tell shows a count, no more often than ten times a second.
func (p *progress) tell(n int) {
	if p.out == nil || time.Since(p.last) < 100*time.Millisecond {
		return
	}
	p.last, p.any = time.Now(), true
	fmt.Fprintf(p.out, "\r%s %d …", p.verb, n)
}

// barWidth is how many characters a bar has.
const barWidth = 20

// through shows how many of the steps are done, and what is being done now.
func (p *progress) through(done, of int, name, doing string) {
	if p.out == nil || time.Since(p.last) < 100*time.Millisecond {
		return
	}
	p.last, p.any = time.Now(), true
	full := barWidth * done / of
	fmt.Fprintf(p.out, "\r\x1b[K[%s%s] %d/%d %s: %s", strings.Repeat("#", full), strings.Repeat(".", barWidth-full), done+1, of, name, doing)
}

// end clears the line.
func (p *progress) end() {
	if p.any {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}
