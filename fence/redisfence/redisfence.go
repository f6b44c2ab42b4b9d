package redisfence

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/fence/internal/ended"
)

const (
	// DefaultPrefix is what the keys of fences begin with unless Config says otherwise.
	DefaultPrefix = "quorumlock:fence:"
	// DefaultReplicaTimeout is how long a write waits for replicas unless Config says otherwise.
	DefaultReplicaTimeout = time.Second
	// DefaultAttempts is how often a write is sent at most unless Config says otherwise.
	DefaultAttempts = 4
)

// Config says how a Fence uses its server. The zero Config is good.
type Config struct {
	// Prefix is what the keys of fences begin with, without braces and up to 128 bytes; "" means DefaultPrefix. Everybody who
	// writes a resource must use the same.
	Prefix string
	// Replicas is how many replicas have to confirm a write before it succeeds, by WAIT; 0, the default, waits for none. It
	// makes a failover that loses the write less likely and excludes nothing: a replica that has not confirmed may be the one
	// that is promoted. A claim that changes nothing waits too, for all that was written before.
	Replicas int
	// Attempts is how often a write is sent at most, while no answer comes or the server says that it cannot write for the moment
	// (in a failover, for one), after pauses that grow from some milliseconds to half a second; 0 means DefaultAttempts, 1 that
	// nothing is repeated. The client's own retries are not used.
	Attempts int
	// ReplicaTimeout is how long to wait for them, from 1 ms on; 0 means DefaultReplicaTimeout.
	ReplicaTimeout time.Duration
	// AllowEviction accepts a resource's first write on a server that may evict any key when it is short of memory
	// (maxmemory-policy allkeys-*), and with it the fence. By default it is refused, with an *EvictionError, unless the user
	// may not ask for INFO.
	AllowEviction bool
}

// Fence is the fenced resources of a Redis server or a Redis Cluster. All methods are safe for concurrent use.
type Fence struct {
	client Client
	cfg    Config
}

// New gives the fenced resources of a server. It asks the server nothing.
func New(client Client, cfg Config) (*Fence, error) {
	if client == nil {
		return nil, &fence.FieldError{Field: "client", Problem: "must not be nil"}
	}
	if cfg.Prefix == "" {
		cfg.Prefix = DefaultPrefix
	}
	if cfg.Attempts == 0 {
		cfg.Attempts = DefaultAttempts
	}
	if cfg.ReplicaTimeout == 0 {
		cfg.ReplicaTimeout = DefaultReplicaTimeout
	}
	if cfg.Replicas < 0 {
		return nil, &fence.FieldError{Field: "Config.Replicas", Value: cfg.Replicas, Problem: "must not be negative"}
	}
	if cfg.Attempts < 0 {
		return nil, &fence.FieldError{Field: "Config.Attempts", Value: cfg.Attempts, Problem: "must not be negative"}
	}
	if cfg.ReplicaTimeout < time.Millisecond {
		return nil, &fence.FieldError{Field: "Config.ReplicaTimeout", Value: cfg.ReplicaTimeout, Problem: "must be 1 ms or more"}
	}
	if err := checkPrefix(cfg.Prefix); err != nil {
		return nil, err
	}
	return &Fence{client: client, cfg: cfg}, nil
}

// Do judges the grant in ctx and runs the commands in one step, in this order, and gives the reply of each: a string, an int64,
// a []any or nil. The replies are nil as a whole if they were lost with a connection and a repetition found that the commands
// had run.
//
// The errors of a refusal are *fence.StaleTokenError, *fence.WrongLockError, *fence.FieldError, fence.ErrNoGrant,
// *DamagedError, *EvictionError and *ServerError; no command has run then. A *CommandError says that some have, a
// *ReplicationError that all have, and an *UncertainError, which matches fence.ErrUnknownOutcome, that it is not known. That one may
// wrap a refusal, of a repetition after an attempt without an answer: ask for the unknown outcome first. ctx bounds the whole, as
// far as the client obeys it.
func (f *Fence) Do(ctx context.Context, resource string, commands ...Command) ([]any, error) {
	grant, err := fence.FromContext(ctx, resource)
	if err != nil {
		return nil, err
	}
	if err := fence.Judge(resource, fence.Grant{}, grant); err != nil {
		return nil, err
	}
	words, keys, err := encode(commands, f.cfg.Prefix)
	if err != nil {
		return nil, err
	}
	if err := ended.Err(ctx); err != nil {
		return nil, fmt.Errorf("%s: nothing was written: %w", resource, err)
	}
	w := &write{
		fence: f, resource: resource, grant: grant, commands: commands,
		keys: append([]any{f.key(resource)}, keys...), words: words, id: newID(),
	}
	return w.run(ctx)
}

// Claim makes the resource refuse every token lower than that of the grant in ctx from now on. Who computes a write from what
// it read claims before it reads. The errors are those of Do.
func (f *Fence) Claim(ctx context.Context, resource string) error {
	_, err := f.Do(ctx, resource)
	return err
}

// Last is the grant that the resource has accepted last; the zero Grant if it has accepted none, or has forgotten. It asks for
// no grant. ctx bounds it.
func (f *Fence) Last(ctx context.Context, resource string) (fence.Grant, error) {
	if err := fence.CheckResource(resource); err != nil {
		return fence.Grant{}, err
	}
	values, err := f.read(ctx, resource)
	if err != nil || !slices.ContainsFunc(values, func(value any) bool { return value != nil }) {
		return fence.Grant{}, err
	}
	g := fence.Grant{Cluster: text(values[0]), Lock: text(values[1])}
	if g.Token, err = fence.ParseToken(text(values[2])); err == nil {
		err = g.Check()
	}
	if err != nil {
		return fence.Grant{}, &DamagedError{Resource: resource, Key: f.key(resource), Problem: err.Error()}
	}
	return g, nil
}

// fields are those that every fence has.
var fields = []any{"cluster", "lock", "token", "recent"}

// read gives the fields of the resource's fence, nil for what it lacks.
func (f *Fence) read(ctx context.Context, resource string) ([]any, error) {
	key := f.key(resource)
	for attempt := 1; ; attempt++ {
		values, err := valuesOf(f.client.Do(ctx, key, append([]any{"HMGET", key}, fields...)))
		if err == nil {
			return values, nil
		}
		var refused *ServerError
		if errors.As(err, &refused) && strings.HasPrefix(refused.Message, "WRONGTYPE") {
			return nil, &DamagedError{Resource: resource, Key: key, Problem: refused.Message}
		}
		if attempt == f.cfg.Attempts || !again(err) || between.Pause(ctx, attempt) != nil {
			return nil, fmt.Errorf("read the fence of %s: %w", resource, err)
		}
	}
}

// valuesOf takes the values of the fields out of what a Client's Do gives for one command.
func valuesOf(replies []any, err error) ([]any, error) {
	if err != nil {
		return nil, &lostError{err}
	}
	if len(replies) != 1 {
		return nil, fmt.Errorf("%d replies to one command", len(replies))
	}
	if refused, ok := replies[0].(*ServerError); ok {
		return nil, refused
	}
	values, _ := replies[0].([]any)
	if len(values) != len(fields) {
		return nil, fmt.Errorf("the server answered %.80v", replies[0])
	}
	return values, nil
}

// id names one write to the script, which knows by it a request that comes again.
func newID() string { return rand.Text() }
