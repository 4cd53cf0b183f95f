package pg

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// Code is the SQLSTATE of an error, or "".
func Code(err error) string {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		return pgErr.Code
	}
	return ""
}

// readOnly is the SQLSTATE of a write that a server refuses for being a standby, or
// read-only otherwise.
const readOnly = "25006"

// unavailable are the SQLSTATEs that say that the server cannot serve just now: it is
// shutting down or starting (57P01-57P03), has no connection left (53300), no disk or
// memory (53xxx), takes no writes any more (25006, after a failover), cancelled the
// statement for its time (57014), or ended the session for idling (25P03, 57P05).
var unavailable = map[string]bool{readOnly: true, "57014": true, "57P01": true, "57P02": true, "57P03": true, "57P05": true, "25P03": true}

// Unavailable reports whether the database could not be reached or could not serve:
// the same call may succeed later. What the call would have done is unknown where the
// connection was lost under it.
func Unavailable(err error) bool {
	if err == nil {
		return false
	}
	if code := Code(err); code != "" {
		return unavailable[code] || strings.HasPrefix(code, "08") || strings.HasPrefix(code, "53")
	}
	var connect *pgconn.ConnectError
	var network net.Error
	return errors.As(err, &connect) || errors.As(err, &network) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, context.DeadlineExceeded) || pgconn.Timeout(err) || pgconn.SafeToRetry(err) ||
		strings.Contains(err.Error(), "conn closed") || strings.Contains(err.Error(), "closed pool")
}

// Retryable reports whether the transaction was rolled back for the sake of others and
// may be run again at once: a serialization failure (40001) or a deadlock (40P01).
func Retryable(err error) bool {
	code := Code(err)
	return code == "40001" || code == "40P01"
}

// LockTimeout reports whether a lock was waited for longer than lock_timeout allows
// (55P03).
func LockTimeout(err error) bool { return Code(err) == "55P03" }

// BadData reports whether the values of a statement were refused: data exceptions
// (class 22), constraint violations (class 23) and program limits (class 54).
func BadData(err error) bool {
	code := Code(err)
	return strings.HasPrefix(code, "22") || strings.HasPrefix(code, "23") || strings.HasPrefix(code, "54")
}
