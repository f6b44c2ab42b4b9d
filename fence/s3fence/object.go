package s3fence

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/quorumlock/quorumlock/fence"
)

// object is one state of a resource. The zero object is that of a resource nobody has written.
type object struct {
	etag    string    // "" if the store has no object
	env     *envelope // nil if there is none, or if it has no envelope
	payload []byte
}

func (o object) grant() fence.Grant {
	if o.env == nil {
		return fence.Grant{}
	}
	return o.env.grant()
}

// exists tells whether there is a payload.
func (o object) exists() bool {
	if o.env == nil {
		return o.etag != ""
	}
	return o.env.State == present
}

// nonce names the write that made the object, "" if it was none of ours.
func (o object) nonce() string {
	if o.env == nil {
		return ""
	}
	return o.env.Nonce
}

// successor is the envelope of a write on top of o.
func (o object) successor(g fence.Grant, nonce string) *envelope {
	e := &envelope{Cluster: g.Cluster, Lock: g.Lock, Token: g.Token, Nonce: nonce}
	if o.env != nil {
		e.Before = o.env.next()
	}
	return e
}

// fate is what became of a write that was sent.
type fate int

const (
	pending  fate = iota // the object is still the one it was to replace, so it may yet be
	applied              // it took effect
	refused              // another took its place, so it never will
	untraced             // the object does not say any more
)

// fateOf tells, from a later state o, what became of a write called nonce that was to replace the object of the write called
// base. Every write names those before it, and each replaced exactly the one named last: so whoever stands behind base took its
// place.
func (o object) fateOf(nonce, base string) fate {
	if o.env == nil {
		if base == "" {
			return pending
		}
		return untraced // deleted, or overwritten past the fence
	}
	chain := o.env.chain()
	if slices.Contains(chain, nonce) {
		return applied
	}
	if base == "" { // the one who created the object stands first, unless the chain has been cut
		if len(chain) <= remembered {
			return refused
		}
		return untraced
	}
	switch slices.Index(chain, base) {
	case -1:
		return untraced
	case len(chain) - 1:
		return pending
	}
	return refused
}

// read gives the present state of a resource. An object without envelope is an *EnvelopeError.
func (b *Bucket) read(ctx context.Context, resource string) (object, error) {
	body, etag, err := b.load(ctx, resource)
	if err != nil || etag == "" {
		return object{}, err
	}
	return parse(resource, body, etag)
}

// readAny is read for objects that may lack an envelope: then the whole body is the payload.
func (b *Bucket) readAny(ctx context.Context, resource string) (object, error) {
	body, etag, err := b.load(ctx, resource)
	if err != nil || etag == "" {
		return object{}, err
	}
	o, err := parse(resource, body, etag)
	if errors.Is(err, ErrUnfenced) {
		return object{etag: etag, payload: body}, nil
	}
	return o, err
}

func parse(resource string, body []byte, etag string) (object, error) {
	env, payload, err := unseal(resource, body)
	if err != nil {
		return object{}, err
	}
	o := object{etag: etag, env: env}
	if o.exists() {
		o.payload = payload
	}
	return o, nil
}

// load gives the body and the ETag of a resource's object, no ETag if there is none.
func (b *Bucket) load(ctx context.Context, resource string) ([]byte, string, error) {
	if err := checkStore(b.store); err != nil { // of the zero Bucket
		return nil, "", err
	}
	body, etag, err := b.store.Get(ctx, b.Key(resource), int64(b.cfg.MaxPayload)+maxEnvelope)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil, "", nil
	case err != nil:
		return nil, "", fmt.Errorf("read %s: %w", resource, err)
	case etag == "":
		return nil, "", &UnconditionalError{Problem: "gives no ETag"}
	}
	return body, etag, nil
}

// write puts body in the place of o.
func (b *Bucket) write(ctx context.Context, resource string, o object, body []byte) error {
	if o.etag == "" {
		return b.store.Create(ctx, b.Key(resource), body)
	}
	return b.store.Replace(ctx, b.Key(resource), o.etag, body)
}
