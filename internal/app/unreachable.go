package app

import (
	"errors"
	"net"

	"github.com/jackc/pgx/v5/pgconn"
	"go.opentelemetry.io/otel/trace"
)

// unreachable says why a database does not answer, without its URL or password.
func unreachable(err error) string {
	var refused *pgconn.PgError
	var network *net.OpError
	switch {
	case errors.As(err, &refused):
		return refused.Message
	case errors.As(err, &network):
		return network.Err.Error()
	}
	return "no connection could be made"
}

// tracesOf is where statements are traced to: nowhere, unless spans are exported.
func tracesOf(tel *telemetry) trace.TracerProvider {
	if !tel.Tracing {
		return nil
	}
	return tel.Traces
}
