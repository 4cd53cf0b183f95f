package ledger

import (
	"slices"

	"github.com/eventsvc/eventsvc/internal/event"
)

// formats are the formats by their numbers in the tables, which never change.
var formats = []event.Format{event.FormatStandard, event.FormatCloudEvents, event.FormatCloudEventsBinary, event.FormatRaw}

// formatNumber is a format as the tables hold it.
func formatNumber(f event.Format) int16 { return int16(max(slices.Index(formats, f), 0)) }

// formatOf reads a number back. One that a newer program wrote is no format that this
// one knows, and cannot be rendered.
func formatOf(n int16) event.Format {
	if n < 0 || int(n) >= len(formats) {
		return "unknown"
	}
	return formats[n]
}
