package app

import (
	"io"
	"log/slog"
	"os"
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

func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
