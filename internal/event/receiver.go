package event

import "time"

// Format is what a receiver is sent.
type Format string

// The formats. Their bytes are frozen: a change would be a new format.
const (
	FormatStandard          Format = "standard" // {"type","timestamp","data"}
	FormatCloudEvents       Format = "cloudevents"
	FormatCloudEventsBinary Format = "cloudevents-binary"
	FormatRaw               Format = "raw" // data alone
)

// Receiver is who is told, and on what terms, with every default filled in.
type Receiver struct {
	Key      string
	Mode     Mode
	Lane     string
	Patterns []Pattern
	Tenant   string // only this tenant's events, or "" for all
	Terms
	MaxAttempts       int           // copied onto the row when an event is fired
	Due               time.Duration // the first attempt comes this long after recorded_at
	Timeout           time.Duration // of a whole attempt
	Lease             time.Duration // of a claim; exceeds Timeout by LeaseMargin at least
	Format            Format
	Headers           map[string]string
	PermanentStatuses []int
	MaxConcurrency    int    // attempts in flight per target and process
	RateLimit         Rate   // attempts begun per target and process, of targets without one of their own
	Trace             bool   // send traceparent
	Function          string // schema.name, where it is a function of the database instead of an address
	Role              string // that the function runs as, or "": the service's own
	FanOut            bool   // it has targets, each of which gets a delivery of its own
	Task              bool   // its site is task: the relay makes no attempt itself
	Eager             bool   // its first attempt comes right after the commit, in the process that fired
	PauseScope        PauseScope
	OnFailure         string // told of each failed attempt after it was recorded, or ""
}

// PauseScope is what an uncounted deferral pauses in the process that heard it.
type PauseScope string

// The scopes.
const (
	PauseLane   PauseScope = "lane"
	PauseTarget PauseScope = "target"
)

// MayDefer reports whether an attempt can end in an uncounted deferral: nothing but
// give_up_after would end a delivery that is deferred so.
func (r *Receiver) MayDefer() bool { return r.GiveUpAfter > 0 }

// LeaseMargin is by how much a lease must exceed the attempt's timeout, so that a
// verdict can still be recorded under it.
const LeaseMargin = 5 * time.Second

// Wants reports whether an event of that type and tenant is owed to the receiver.
// Tenants fail closed: a receiver of one tenant is never owed an event without.
func (r *Receiver) Wants(eventType, tenant string) bool {
	if r.Tenant != "" && r.Tenant != tenant {
		return false
	}
	for _, p := range r.Patterns {
		if p.Matches(eventType) {
			return true
		}
	}
	return false
}

// Target is one address, with what an attempt there needs.
type Target struct {
	ID       TargetID
	Name     string // "" for the implicit target of a receiver without fan-out
	Receiver *Receiver
	URL      string
	// Tenant, Patterns and Headers are the target's own, on top of its receiver's: only
	// this tenant's events, or all; only these of the receiver's types, or all.
	Tenant   string
	Patterns []Pattern
	Headers  map[string]string
	// RateLimit is the target's own, or its receiver's.
	RateLimit Rate
	// Signers are the live signing secrets, and Keys the key pairs, newest first. All of
	// them sign.
	Signers []*Signer
	Keys    []SigningKey
	// Disabled says that it was switched off after too many dead deliveries: it is owed
	// nothing new.
	Disabled bool
	// Paused keeps the work owed and makes no request.
	Paused bool
	// Deleted says that the address is gone: what it is still owed is orphaned.
	Deleted bool
	// Unusable says why no attempt can be made of what is stored about it, or is "".
	// It is owed its events all the same.
	Unusable string
	// Unreadable says that Unusable is for good: the declaration itself cannot be
	// decoded. Otherwise the trouble is the process's, and may pass.
	Unreadable bool
}
