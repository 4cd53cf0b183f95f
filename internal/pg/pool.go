package pg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/exaring/otelpgx"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/trace"
)

// PoolOptions are what a pool is told beside its URL.
type PoolOptions struct {
	// Name tells the pool's connections apart in pg_stat_activity.
	Name string
	// MaxConns bounds the pool unless the URL does; 0 is pgx's default.
	MaxConns int32
	// Traces, where given, gets a span for each statement, named after the statement's
	// first comment. Parameters are never in it: they hold payloads and secrets.
	Traces trace.TracerProvider
	// Foreign says that code which is not ours runs on the connections: no statement of
	// ours keeps a name on them, which theirs could take away, and an answer that is longer
	// than any of ours closes the connection.
	Foreign bool
}

const (
	connectTimeout = 2 * time.Second
	maxLifetime    = time.Hour
	// idlePingTimeout is how long a connection that idled may take to answer before another is
	// taken in its place: well within what its callers have.
	idlePingTimeout = 500 * time.Millisecond
)

// Open makes a pool. It does not need the server to be there; it fails only for a URL
// that cannot be read, with an error that does not repeat the URL, since that may hold
// a password.
func Open(ctx context.Context, url string, o PoolOptions) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("the database URL cannot be read: %s", withoutURL(err))
	}
	c := config.ConnConfig
	dress(c, o.Name)
	way := &passage{given: givenMode(url)}
	validate := c.ValidateConnect
	c.ValidateConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		if err := validate(ctx, conn); err != nil {
			return err
		}
		return way.look(ctx, conn)
	}
	config.BeforeConnect = way.choose
	if o.Foreign {
		guard(c)
	}
	if o.Traces != nil {
		c.Tracer = otelpgx.NewTracer(otelpgx.WithTracerProvider(o.Traces), otelpgx.WithSpanNameFunc(spanName))
	}
	if config.PingTimeout == 0 {
		config.PingTimeout = idlePingTimeout
	}
	config.MaxConnLifetime = maxLifetime
	config.MaxConnLifetimeJitter = maxLifetime / 10
	if o.MaxConns > 0 && !strings.Contains(url, "pool_max_conns") {
		config.MaxConns = o.MaxConns
	}
	// A LISTEN through a pooler leaves its notifications to whoever comes next: they would
	// be kept for ever by a connection that never waits for any.
	c.OnNotification = func(*pgconn.PgConn, *pgconn.Notification) {}
	config.AfterConnect = func(_ context.Context, conn *pgx.Conn) error {
		conn.TypeMap().RegisterType(&pgtype.Type{
			Name: "timestamptz", OID: pgtype.TimestamptzOID, Codec: &pgtype.TimestamptzCodec{ScanLocation: time.UTC},
		})
		flatArrays(conn.TypeMap())
		return nil
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("make a pool: %w", err)
	}
	return pool, nil
}

// maxForeign bounds one message of a server that runs code which is not ours: an error of
// that code has no bound of its own.
const maxForeign = 4 << 20

func guard(c *pgx.ConnConfig) {
	if c.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement {
		c.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	build := c.BuildFrontend
	c.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend {
		f := build(r, w)
		f.SetMaxBodyLen(maxForeign)
		return f
	}
}

// dress makes a connection's configuration ours.
func dress(c *pgx.ConnConfig, name string) {
	c.ConnectTimeout = orDefault(c.ConnectTimeout, connectTimeout)
	c.RuntimeParams["application_name"] = "eventsvc/" + name
	// A TCP peer that vanished is noticed within half a minute.
	dialer := &net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}}
	c.DialFunc = dialer.DialContext
	// After a failover, a pool must not stay on the server that was demoted: neither
	// connect to it nor keep a connection that it has refused a write on.
	if c.ValidateConnect == nil {
		c.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	keeps := c.OnPgError
	c.OnPgError = func(conn *pgconn.PgConn, err *pgconn.PgError) bool {
		return err.Code != readOnly && keeps(conn, err)
	}
}

// CheckURL says what is wrong with a database URL, without repeating it, or nil.
func CheckURL(url string) error {
	if _, err := pgxpool.ParseConfig(url); err != nil {
		return errors.New(withoutURL(err))
	}
	return nil
}

// withoutURL is the cause that the driver gives for not reading a URL, without the URL.
func withoutURL(err error) string {
	var parse *pgconn.ParseConfigError
	if errors.As(err, &parse) && parse.Unwrap() != nil && !strings.Contains(parse.Unwrap().Error(), "://") {
		return parse.Unwrap().Error()
	}
	return "it is no postgres:// URL and no list of key=value"
}

func orDefault(d, fallback time.Duration) time.Duration {
	if d == 0 {
		return fallback
	}
	return d
}

// spanName is the first line of a statement, which says what it does: "ledger: claim".
func spanName(sql string) string {
	line, _, _ := strings.Cut(sql, "\n")
	name, isComment := strings.CutPrefix(line, "-- ")
	if !isComment {
		return "query"
	}
	if end := strings.IndexAny(name, ",.;"); end > 0 {
		name = name[:end]
	}
	return name
}

// WaitReady returns once the server answers, or when the context ends, with the last
// error.
func WaitReady(ctx context.Context, pool *pgxpool.Pool) error {
	for {
		err := pool.Ping(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
}
