package app

import (
	"io"
	"log"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/lmittmann/tint"

	"github.com/eventsvc/eventsvc/internal/around"
)

// newLogger writes lines for people on a terminal, and JSON otherwise. Each line says
// which attempt and which trace it belongs to.
func newLogger(w io.Writer, format, level string) *slog.Logger {
	var least slog.Level
	if err := least.UnmarshalText([]byte(level)); err != nil {
		panic(err) // Config.Check has read it
	}
	if format == "auto" {
		format = "json"
		if terminal(w) {
			format = "text"
		}
	}
	var h slog.Handler = slog.NewJSONHandler(w, &slog.HandlerOptions{Level: least})
	if format == "text" {
		h = tint.NewTextHandler(w, &tint.Options{Level: least, TimeFormat: time.TimeOnly, NoColor: !terminal(w)})
	}
	return slog.New(around.LogHandler(h))
}

// foreign takes what libraries print by package log, above all net/http of its peers: a
// receiver can have it print a line for each frame, and quote what it sent. So it is for who
// looks for it, at DEBUG, and ends where a quotation begins.
type foreign struct{ log *slog.Logger }

const maxForeign = 200 // bytes of a line

func (f foreign) Write(p []byte) (int, error) {
	text, _, _ := strings.Cut(string(p), `"`)
	text, _, _ = strings.Cut(text, "\n")
	f.log.Debug("library: " + strings.ToValidUTF8(text[:min(len(text), maxForeign)], ""))
	return len(p), nil
}

// takeForeign has package log print into the process's log.
func takeForeign(to *slog.Logger) {
	log.SetFlags(0)
	log.SetOutput(foreign{to})
}

func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
