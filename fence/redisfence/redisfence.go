package redisfence

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/fence"
)

const (
	// DefaultPrefix is what the keys of fences begin with unless Config says otherwise.
	DefaultPrefix = "quorumlock:fence:"
	// DefaultReplicaTimeout is how long a write waits for replicas unless Config says otherwise.
	DefaultReplicaTimeout = time.Second
)

// Config says how a Fence uses its server. The zero Config is good.
type Config struct {
	// Prefix is what the keys of fences begin with, without braces and up to 128 bytes; "" means DefaultPrefix. Everybody who
	// writes a resource must use the same.
	Prefix string
	// Replicas is how many replicas have to confirm a write before it succeeds, by WAIT; 0, the default, waits for none. It
	// makes a failover that loses the write less likely and excludes nothing: a replica that has not confirmed may be the one
	// that is promoted. A claim that changes nothing waits too, for what was written before on the same connection.
	Replicas int
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
	if cfg.ReplicaTimeout == 0 {
		cfg.ReplicaTimeout = DefaultReplicaTimeout
	}
	if cfg.Replicas < 0 {
		return nil, &fence.FieldError{Field: "Config.Replicas", Value: cfg.Replicas, Problem: "must not be negative"}
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
// a []any or nil. The replies are nil as a whole if they were lost with a connection and the client's repetition found that the
// commands had run.
//
// The errors of a refusal are *fence.StaleTokenError, *fence.WrongLockError, *fence.FieldError, fence.ErrNoGrant,
// *DamagedError, *EvictionError and *ServerError; no command has run then. A *CommandError says that some have, a
// *ReplicationError that all have, and an *UncertainError, which matches fence.ErrUnknownOutcome, that it is not known. ctx
// bounds the whole, as far as the client obeys it.
func (f *Fence) Do(ctx context.Context, resource string, commands ...Command) ([]any, error) {
	grant, err := fence.FromContext(ctx, resource)
	if err != nil {
		return nil, err
	}
	if err := fence.Judge(resource, fence.Grant{}, grant); err != nil {
		return nil, err
	}
	args, keys, err := encode(commands, f.cfg.Prefix)
	if err != nil {
		return nil, err
	}
	if err := ended(ctx); err != nil {
		return nil, fmt.Errorf("%s: nothing was written: %w", resource, err)
	}
	w := &write{fence: f, resource: resource, grant: grant, commands: commands}
	return w.run(ctx, keys, args)
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
	key := f.key(resource)
	replies, err := f.client.Do(ctx, key, []any{"HMGET", key, "cluster", "lock", "token"})
	if err != nil {
		return fence.Grant{}, fmt.Errorf("read the fence of %s: %w", resource, err)
	}
	fields, err := list(replies, 3)
	if err != nil {
		return fence.Grant{}, &DamagedError{Resource: resource, Key: key, Problem: err.Error()}
	}
	if fields[0] == nil && fields[1] == nil && fields[2] == nil {
		return fence.Grant{}, nil
	}
	g := fence.Grant{Cluster: text(fields[0]), Lock: text(fields[1])}
	if g.Token, err = fence.ParseToken(text(fields[2])); err != nil {
		return fence.Grant{}, &DamagedError{Resource: resource, Key: key, Problem: err.Error()}
	}
	return g, nil
}

// id names one write to the script, which knows by it a request that comes again.
func newID() string { return rand.Text() }

// ended is the error of ctx, with its cause.
func ended(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != ctx.Err() {
		return fmt.Errorf("%w: %w", ctx.Err(), cause)
	}
	return ctx.Err()
}
