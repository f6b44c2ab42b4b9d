package s3fence

import (
	"context"
	"fmt"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/fence/internal/arg"
)

// DefaultMaxPayload is the most bytes of a payload unless Config says otherwise.
const DefaultMaxPayload = 16 << 20

// maxMaxPayload stays below what one PutObject takes, and what an int of 32 bits counts.
const maxMaxPayload = 1 << 30

// Config says how a Bucket uses its store. The zero Config is good.
type Config struct {
	// Prefix is what all keys begin with, "" by default: up to 512 bytes of the characters that Bucket.Key leaves alone. It may
	// end with a slash.
	Prefix string
	// MaxPayload is the most bytes of one payload, for writing and for reading; 0 means DefaultMaxPayload. Payloads are held in
	// memory as a whole, several times over, and go into one request: for large data keep it in objects of their own, written
	// once under unique names, and let the fenced object name the current one.
	MaxPayload int
}

// Bucket is the fenced resources of one store. All methods are safe for concurrent use.
//
// A write reads the object, judges the grant in its context, and writes on the condition that the object is still the one read.
// When it is not, it begins again; each time some other write has taken effect. How long it tries is bounded by ctx.
type Bucket struct {
	store Store
	cfg   Config
}

// New gives the fenced resources of a store, without asking it anything. Use Open, unless something else has probed this very
// store.
func New(store Store, cfg Config) (*Bucket, error) {
	if err := checkStore(store); err != nil {
		return nil, err
	}
	if cfg.MaxPayload == 0 {
		cfg.MaxPayload = DefaultMaxPayload
	}
	if cfg.MaxPayload < 0 || cfg.MaxPayload > maxMaxPayload {
		problem := fmt.Sprintf("must be 1 to %d bytes", maxMaxPayload)
		return nil, &fence.FieldError{Field: "Config.MaxPayload", Value: cfg.MaxPayload, Problem: problem}
	}
	return &Bucket{store: store, cfg: cfg}, checkPrefix(cfg.Prefix)
}

// Open gives the fenced resources of a store that has passed Probe. ctx bounds the probe.
func Open(ctx context.Context, store Store, cfg Config) (*Bucket, error) {
	b, err := New(store, cfg)
	if err != nil {
		return nil, err
	}
	if err := b.Probe(ctx); err != nil {
		return nil, err
	}
	return b, nil
}

func checkStore(store Store) error {
	if arg.IsNil(store) {
		return &fence.FieldError{Field: "store", Problem: "must not be nil"}
	}
	return nil
}

// Put sets the resource's payload. It shows the grant in ctx; the errors are those of Update.
func (b *Bucket) Put(ctx context.Context, resource string, payload []byte) error {
	return b.Update(ctx, resource, func(e *Edit) error {
		e.Set(payload)
		return nil
	})
}

// Claim makes the resource refuse every token lower than that of the grant in ctx from now on; its payload stays. Who computes
// a write from what it read claims before it reads, or reads within Update. The errors are those of Update.
func (b *Bucket) Claim(ctx context.Context, resource string) error {
	return b.Update(ctx, resource, func(*Edit) error { return nil })
}

// Delete takes the payload away and leaves an object behind that keeps the fence: without it the next write would be the first
// one again, and a stale one as good as any. It shows the grant in ctx; the errors are those of Update.
func (b *Bucket) Delete(ctx context.Context, resource string) error {
	return b.Update(ctx, resource, func(e *Edit) error {
		e.Delete()
		return nil
	})
}

// Get gives the resource's payload, and the grant under which it was written or, if that came later, claimed. It asks for no
// grant: a reader learns which one it saw, and is promised nothing about the next moment. The error matches ErrNotFound if
// there is no payload; the grant is then that of the claim or of the deletion, or zero if the resource has accepted none. It is
// an *EnvelopeError for an object that was written past the fence. ctx bounds the request.
func (b *Bucket) Get(ctx context.Context, resource string) ([]byte, fence.Grant, error) {
	if err := fence.CheckResource(resource); err != nil {
		return nil, fence.Grant{}, err
	}
	o, err := b.read(ctx, resource)
	if err == nil && !o.exists() {
		err = fmt.Errorf("%s: %w", resource, ErrNotFound)
	}
	return o.payload, o.grant(), err
}
