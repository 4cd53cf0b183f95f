package webhook

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
)

// maxDials bounds the connections that are opened for one attempt. Go's client opens
// another each time a new one turns out to take no request, without end and without a
// pause: a peer that says over HTTP/2 that it takes none at once would have it dial for as
// long as the attempt lasts. Some are needed where attempts that begin together take each
// other's.
const maxDials = 8

var errTooManyDials = errors.New("no connection takes a request")

type dialsKey struct{}

// countDials gives an attempt its budget of connections.
func countDials(ctx context.Context) context.Context {
	return context.WithValue(ctx, dialsKey{}, new(atomic.Int32))
}

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// bounded dials for an attempt until its budget is spent.
func bounded(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if n, ok := ctx.Value(dialsKey{}).(*atomic.Int32); ok && n.Add(1) > maxDials {
			return nil, errTooManyDials
		}
		return dial(ctx, network, address)
	}
}
