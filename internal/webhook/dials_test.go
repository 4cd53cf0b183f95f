package webhook

import (
	"context"
	"net"
	"testing"

	"github.com/eventsvc/eventsvc/internal/event"
)

// A peer whose connections take no request is not dialled for as long as an attempt lasts.
// Each attempt has a budget of its own.
func TestAnAttemptOpensAFewConnectionsAtMost(t *testing.T) {
	dialled := 0
	dial := bounded(func(context.Context, string, string) (net.Conn, error) { dialled++; return nil, nil })
	for range 2 {
		ctx := countDials(t.Context())
		var err error
		for dialled = 0; err == nil && dialled <= maxDials; _, err = dial(ctx, "tcp", "192.0.2.1:443") {
		}
		if class, reason := explain(ctx, err, 0); dialled != maxDials || class != event.ClassConnect || reason != "the receiver takes no request on any connection that it accepts" {
			t.Errorf("%d dialled, then %s: %s", dialled, class, reason)
		}
	}
}
