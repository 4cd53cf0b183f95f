package app

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"

	"github.com/eventsvc/eventsvc/internal/event"
	"github.com/eventsvc/eventsvc/internal/pg"
	"github.com/eventsvc/eventsvc/internal/registry"
	"github.com/eventsvc/eventsvc/internal/spelling"
	"github.com/eventsvc/eventsvc/internal/webhook"
)

// Config is what the environment says. Every name is EVENTSVC_ and the tag, but for
// DATABASE_URL; a name that begins so and is not known is an error.
type Config struct {
	DatabaseURL string `env:"DATABASE_URL" doc:"PostgreSQL 15 or later."`

	Listen    string `env:"EVENTSVC_LISTEN" envDefault:"127.0.0.1:8080" doc:"Address of the API."`
	OpsListen string `env:"EVENTSVC_OPS_LISTEN" doc:"Address of /metrics, /livez, /readyz and /debug/pprof. /metrics is then not at the API's address; pprof never is."`
	Auth      string `env:"EVENTSVC_AUTH" envDefault:"on" doc:"off: no API keys are asked for. Only where nobody else can reach the API."`
	AdminKey  string `env:"EVENTSVC_ADMIN_KEY" doc:"The operator's API key."`
	SecretKey string `env:"EVENTSVC_SECRET_KEY" doc:"Seals signing secrets at rest: base64 of 32 bytes; several, newest first, separated by commas."`
	Source    string `env:"EVENTSVC_SOURCE" envDefault:"eventsvc" doc:"CloudEvents source of events that name none."`
	LogFormat string `env:"EVENTSVC_LOG_FORMAT" envDefault:"auto" doc:"json, text, or auto: text on a terminal."`
	LogLevel  string `env:"EVENTSVC_LOG_LEVEL" envDefault:"info" doc:"debug, info, warn or error."`

	RelayWorkers int            `env:"EVENTSVC_RELAY_WORKERS" envDefault:"256" doc:"Attempts in flight; 0: serve is API only."`
	Batch        int            `env:"EVENTSVC_BATCH" envDefault:"500" doc:"Most deliveries of one claim."`
	Poll         event.Duration `env:"EVENTSVC_POLL" envDefault:"1s" doc:"How long a missed wake-up can go unnoticed."`
	Lease        event.Duration `env:"EVENTSVC_LEASE" envDefault:"0s" doc:"Lease of receivers that declare none; 0s: timeout + 20s."`
	Lanes        string         `env:"EVENTSVC_LANES" doc:"Attempts in flight by lane, such as mail=20,bulk=8; a lane that is not named may use all of them."`
	MaxClaims    int            `env:"EVENTSVC_MAX_CLAIMS" envDefault:"10" doc:"Lost claims after which a delivery is dead with class poison."`
	Wake         string         `env:"EVENTSVC_WAKE" envDefault:"notify" doc:"notify, or poll: no LISTEN and no NOTIFY."`
	ListenURL    string         `env:"EVENTSVC_LISTEN_DATABASE_URL" doc:"Where LISTEN connects, if DATABASE_URL goes through a transaction pooler."`

	BackoffBase   event.Duration `env:"EVENTSVC_BACKOFF_BASE" envDefault:"2s" doc:"Of receivers that declare none."`
	BackoffCap    event.Duration `env:"EVENTSVC_BACKOFF_CAP" envDefault:"1h" doc:"Of receivers that declare none."`
	MaxAttempts   int            `env:"EVENTSVC_MAX_ATTEMPTS" envDefault:"20" doc:"Of receivers that declare none."`
	MaxRetryAfter event.Duration `env:"EVENTSVC_MAX_RETRY_AFTER" envDefault:"1d" doc:"No receiver's Retry-After is honoured for longer."`
	StrictTypes   bool           `env:"EVENTSVC_STRICT_TYPES" envDefault:"false" doc:"true: events of undeclared types are refused."`
	AllowPrivate  string         `env:"EVENTSVC_ALLOW_PRIVATE" envDefault:"false" doc:"true: webhooks may go to loopback and private addresses; or a list of CIDR prefixes."`
	EgressProxy   string         `env:"EVENTSVC_EGRESS_PROXY" doc:"URL of a forward proxy that webhooks and on_failure go through, by CONNECT. Names are resolved and judged here."`
	HTTP2         bool           `env:"EVENTSVC_HTTP2" envDefault:"true" doc:"false: webhooks and on_failure speak HTTP/1.1 alone, where receivers offer an HTTP/2 that is broken."`

	NATSURL string `env:"EVENTSVC_NATS_URL" doc:"NATS with JetStream, for receivers with site task and a url: relays hand their deliveries over it to eventsvc worker. Several servers separated by commas."`

	FunctionSchemas string `env:"EVENTSVC_FUNCTION_SCHEMAS" doc:"Schemas of the database whose functions may be receivers, separated by commas; none by default."`
	FunctionConns   int    `env:"EVENTSVC_FUNCTION_CONNS" envDefault:"16" doc:"Functions called at one time, each on a connection of its own."`

	Retention  event.Duration `env:"EVENTSVC_RETENTION" envDefault:"90d" doc:"How long events are kept once all their deliveries are terminal; owed work is never pruned."`
	PruneEvery event.Duration `env:"EVENTSVC_PRUNE_EVERY" envDefault:"1m" doc:"How often what is past its retention is pruned; 0s: only by eventsvc prune."`
	PruneRows  int            `env:"EVENTSVC_PRUNE_ROWS" envDefault:"5000" doc:"Most rows that one transaction of a prune deletes."`

	TenantQuota int `env:"EVENTSVC_TENANT_QUOTA" envDefault:"0" doc:"Deliveries that may be owed for events of one tenant; more fires of it are 429. 0: any number."`

	DisableAfterDead int `env:"EVENTSVC_DISABLE_AFTER_DEAD" envDefault:"20" doc:"Dead deliveries in a row that switch a target of a fan-out receiver off; 0: never."`

	AutoMigrate   bool           `env:"EVENTSVC_AUTO_MIGRATE" envDefault:"false" doc:"Migrate the schema at start."`
	ShutdownGrace event.Duration `env:"EVENTSVC_SHUTDOWN_GRACE" envDefault:"25s" doc:"How long a stop waits for attempts under way."`

	TestMode bool `env:"EVENTSVC_TEST_MODE" envDefault:"false" doc:"POST /v1/testing/drain and /reset. Never in production."`

	PGBin string `env:"EVENTSVC_PG_BIN" doc:"dev: directory of initdb and postgres."`
}

// ConfigError is a configuration that cannot be run with. Commands exit 78 for it.
type ConfigError struct{ text string }

// Error says which setting, and what would do.
func (e ConfigError) Error() string { return e.text }

func badSetting(name, format string, args ...any) error {
	return ConfigError{name + " " + fmt.Sprintf(format, args...)}
}

// ReadConfig reads the environment. Its error is a ConfigError in one line.
func ReadConfig(environ []string) (Config, error) {
	if err := refuseUnknown(environ); err != nil {
		return Config{}, err
	}
	var c Config
	if err := env.ParseWithOptions(&c, env.Options{Environment: env.ToMap(environ)}); err != nil {
		return Config{}, unreadable(err)
	}
	return c, c.Check()
}

// Logger writes the process's log as the settings say.
func (c *Config) Logger(w io.Writer) *slog.Logger { return newLogger(w, c.LogFormat, c.LogLevel) }

// NoDatabase is the error of a command that needs a database and was given none.
func NoDatabase() error {
	return ConfigError{"DATABASE_URL is not set; give the URL of a PostgreSQL database, or run `eventsvc dev`, which needs none"}
}

// NoKeys is the error of a service that nobody could call.
func NoKeys() error {
	return ConfigError{"EVENTSVC_ADMIN_KEY is not set and no API key is live, so nobody could call the API; set it, make one with `eventsvc keys create`, or set EVENTSVC_AUTH=off where nobody else can reach it"}
}

// NoWorkers is the error of a relay without workers.
func NoWorkers() error {
	return ConfigError{"EVENTSVC_RELAY_WORKERS is 0, so the relay would have nothing to work with"}
}

// Names are all settings, in the order of Config.
func Names() []string {
	var names []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Config]()) {
		names = append(names, f.Tag.Get("env"))
	}
	return names
}

// refuseUnknown catches misspelt settings: a misspelt one would silently be its
// default.
func refuseUnknown(environ []string) error {
	known := Names()
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, "EVENTSVC_") && !slices.Contains(known, name) {
			return ConfigError{name + " is no setting of eventsvc" + spelling.DidYouMean(name, known)}
		}
	}
	return nil
}

// unreadable is the library's finding in our words: the setting, and what its value
// must be.
func unreadable(err error) error {
	var all env.AggregateError
	var parse env.ParseError
	if errors.As(err, &all) && len(all.Errors) > 0 {
		err = all.Errors[0]
	}
	if errors.As(err, &parse) {
		for _, f := range reflect.VisibleFields(reflect.TypeFor[Config]()) {
			if f.Name == parse.Name {
				return badSetting(f.Tag.Get("env"), "must be %s", wantedOf(f.Type))
			}
		}
	}
	return ConfigError{err.Error()}
}

func wantedOf(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[event.Duration]():
		return "a duration such as 90s, 48h or 2d"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.Int:
		return "a whole number"
	}
	return "text"
}

// Check says what is wrong with a setting's value, as a ConfigError, or nil.
func (c *Config) Check() error {
	positive := func(name string, d event.Duration) error {
		if d <= 0 {
			return badSetting(name, "must be longer than 0s")
		}
		return nil
	}
	return cmp.Or(
		oneOf("EVENTSVC_AUTH", c.Auth, "on", "off"),
		oneOf("EVENTSVC_WAKE", c.Wake, "notify", "poll"),
		oneOf("EVENTSVC_LOG_FORMAT", c.LogFormat, "auto", "json", "text"),
		oneOf("EVENTSVC_LOG_LEVEL", c.LogLevel, "debug", "info", "warn", "error"),
		checkAddress("EVENTSVC_LISTEN", c.Listen),
		c.checkOps(),
		within("EVENTSVC_TENANT_QUOTA", c.TenantQuota, 0, 1_000_000_000),
		within("EVENTSVC_RELAY_WORKERS", c.RelayWorkers, 0, 10_000),
		within("EVENTSVC_BATCH", c.Batch, 1, 5000),
		within("EVENTSVC_DISABLE_AFTER_DEAD", c.DisableAfterDead, 0, 1_000_000),
		within("EVENTSVC_FUNCTION_CONNS", c.FunctionConns, 1, 1000),
		parses("EVENTSVC_FUNCTION_SCHEMAS", c.FunctionSchemas, parseSchemas),
		within("EVENTSVC_PRUNE_ROWS", c.PruneRows, 1, 1_000_000),
		positive("EVENTSVC_RETENTION", c.Retention),
		parses("EVENTSVC_LANES", c.Lanes, ParseLanes),
		within("EVENTSVC_MAX_CLAIMS", c.MaxClaims, 1, 1000),
		within("EVENTSVC_MAX_ATTEMPTS", c.MaxAttempts, 1, 1000),
		positive("EVENTSVC_POLL", c.Poll),
		positive("EVENTSVC_BACKOFF_BASE", c.BackoffBase),
		positive("EVENTSVC_BACKOFF_CAP", c.BackoffCap),
		positive("EVENTSVC_MAX_RETRY_AFTER", c.MaxRetryAfter),
		positive("EVENTSVC_SHUTDOWN_GRACE", c.ShutdownGrace),
		c.checkCurve(),
		c.checkKeys(),
		c.checkURLs(),
		parses("EVENTSVC_ALLOW_PRIVATE", c.AllowPrivate, webhook.ParseAllowed),
		parses("EVENTSVC_EGRESS_PROXY", c.EgressProxy, webhook.ParseProxy),
	)
}

func (c *Config) checkOps() error {
	if c.OpsListen == "" {
		return nil
	}
	if c.OpsListen == c.Listen && !strings.HasSuffix(c.Listen, ":0") {
		return badSetting("EVENTSVC_OPS_LISTEN", "is EVENTSVC_LISTEN; give an address of its own, or none")
	}
	return checkAddress("EVENTSVC_OPS_LISTEN", c.OpsListen)
}

func (c *Config) checkCurve() error {
	if c.BackoffCap < c.BackoffBase {
		return badSetting("EVENTSVC_BACKOFF_CAP", "is %s, which is below EVENTSVC_BACKOFF_BASE %s", c.BackoffCap, c.BackoffBase)
	}
	if c.Lease != 0 && time.Duration(c.Lease) <= 10*time.Second+event.LeaseMargin {
		return badSetting("EVENTSVC_LEASE", "is %s, and must exceed the default timeout of 10s by more than 5s", c.Lease)
	}
	return nil
}

func (c *Config) checkKeys() error {
	if c.AdminKey != "" && len(c.AdminKey) < 16 {
		return badSetting("EVENTSVC_ADMIN_KEY", "is too short to be a key: use 16 random characters or more")
	}
	if _, err := c.sealKeys(); err != nil {
		return badSetting("EVENTSVC_SECRET_KEY", "%s", err)
	}
	return nil
}

func (c *Config) checkURLs() error {
	if err := pg.CheckURL(c.DatabaseURL); c.DatabaseURL != "" && err != nil {
		return badSetting("DATABASE_URL", "cannot be read: %s", err)
	}
	if err := pg.CheckURL(c.ListenURL); c.ListenURL != "" && err != nil {
		return badSetting("EVENTSVC_LISTEN_DATABASE_URL", "cannot be read: %s", err)
	}
	return nil
}

func (c *Config) sealKeys() ([][]byte, error) {
	if c.SecretKey == "" {
		return nil, nil
	}
	var keys [][]byte
	for part := range strings.SplitSeq(c.SecretKey, ",") {
		key, err := registry.ParseSealKey(strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// proxy is the forward proxy that the settings ask for, or nil.
func (c *Config) proxy() *url.URL {
	proxy, err := webhook.ParseProxy(c.EgressProxy)
	if err != nil {
		panic(err) // Check has read it
	}
	return proxy
}

// parseSchemas reads names separated by commas.
func parseSchemas(text string) (schemas []string, err error) {
	if text == "" {
		return nil, nil
	}
	for name := range strings.SplitSeq(text, ",") {
		name = strings.TrimSpace(name)
		if err := registry.CheckFunctionSchema(name); err != nil {
			return nil, err
		}
		schemas = append(schemas, name)
	}
	return schemas, nil
}

// registry is what the settings tell the registry.
func (c *Config) registry(sealer *registry.Sealer, policy *webhook.Policy) registry.Options {
	schemas, err := parseSchemas(c.FunctionSchemas)
	if err != nil {
		panic(err) // Check has read it
	}
	return registry.Options{Defaults: c.defaults(), Sealer: sealer, CheckURL: policy.CheckURL, FunctionSchemas: schemas}
}

// policy is the egress policy that the settings ask for.
func (c *Config) policy() *webhook.Policy {
	opened, err := webhook.ParseAllowed(c.AllowPrivate)
	if err != nil {
		panic(err) // Check has read it
	}
	policy := webhook.NewPolicy(opened...)
	policy.OwnAt(c.Listen)
	return policy
}

func (c *Config) defaults() registry.Defaults {
	return registry.Defaults{
		MaxAttempts:   c.MaxAttempts,
		Curve:         event.Curve{Base: time.Duration(c.BackoffBase), Cap: time.Duration(c.BackoffCap)},
		Lease:         time.Duration(c.Lease),
		MaxRetryAfter: time.Duration(c.MaxRetryAfter),
	}
}

func oneOf(name, got string, allowed ...string) error {
	if slices.Contains(allowed, got) {
		return nil
	}
	return badSetting(name, "is %q, and must be %s", got, strings.Join(allowed, " or "))
}

func within(name string, n, low, high int) error {
	if n < low || n > high {
		return badSetting(name, "is %d, and must be %d to %d", n, low, high)
	}
	return nil
}

func parses[T any](name, text string, parse func(string) (T, error)) error {
	if _, err := parse(text); err != nil {
		return badSetting(name, "cannot be read: %s", err)
	}
	return nil
}

func checkAddress(name, address string) error {
	host, port, err := net.SplitHostPort(address)
	n, errPort := strconv.Atoi(port)
	if err != nil || errPort != nil || n < 0 || n > 65535 || strings.ContainsAny(host, " /") {
		return badSetting(name, "is %q, and must be host:port, such as 127.0.0.1:8080", address)
	}
	return nil
}
