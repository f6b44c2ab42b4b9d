package s3fence

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/fence/internal/backoff"
	"github.com/quorumlock/quorumlock/fence/internal/ended"
)

// Edit is one change of a resource within Update. It is not for use after, or by several goroutines.
type Edit struct {
	payload []byte
	exists  bool
	changed bool
	owned   bool // payload is the edit's own memory
}

// Payload is the resource's payload as it stands, with what Set has done; nil if there is none. It is a copy: what is changed in it
// is written only by Set.
func (e *Edit) Payload() []byte {
	if !e.owned {
		e.payload, e.owned = slices.Clone(e.payload), true
	}
	return e.payload
}

// Exists tells whether there is a payload; it may be empty.
func (e *Edit) Exists() bool { return e.exists }

// Set makes payload the resource's payload. It is read until Update returns.
func (e *Edit) Set(payload []byte) {
	e.payload, e.exists, e.changed, e.owned = payload, true, true, true
}

// Delete takes the payload away.
func (e *Edit) Delete() {
	e.changed = e.changed || e.exists
	e.payload, e.exists = nil, false
}

// Update changes a resource in one atomic step: it judges the grant in ctx, lets edit compute the new payload from the present
// one, and writes it on the condition that nothing has been written in between. If something has, it begins again, and edit
// runs again: it must do nothing but compute. An edit that changes nothing is a claim.
//
// The errors of a refusal are *fence.StaleTokenError, *fence.WrongLockError, *fence.FieldError, fence.ErrNoGrant and
// *EnvelopeError; nothing has been written then. The same goes for an error of edit, which is returned as it is, and for
// others. An *UncertainError, whatever it wraps, says that the write was sent and may have taken effect; it matches
// fence.ErrUnknownOutcome. ctx bounds the whole.
func (b *Bucket) Update(ctx context.Context, resource string, edit func(*Edit) error) error {
	if edit == nil {
		return &fence.FieldError{Field: "edit", Problem: "must not be nil"}
	}
	return b.apply(ctx, resource, edit, b.read)
}

// Adopt takes an object that was written past the fence in: it becomes the payload, under the grant in ctx. Nothing is known of
// tokens it might have accepted, so be sure that no writer is left that comes past the fence. A resource that has a fence, or
// no object, is only claimed. The errors are those of Update.
func (b *Bucket) Adopt(ctx context.Context, resource string) error {
	return b.apply(ctx, resource, func(*Edit) error { return nil }, b.readAny)
}

type reader func(ctx context.Context, resource string) (object, error)

func (b *Bucket) apply(ctx context.Context, resource string, edit func(*Edit) error, read reader) error {
	grant, err := fence.FromContext(ctx, resource)
	if err != nil {
		return err
	}
	if err := fence.Judge(resource, fence.Grant{}, grant); err != nil {
		return err
	}
	u := &update{bucket: b, resource: resource, grant: grant, nonce: rand.Text(), edit: edit, read: read}
	return u.run(ctx)
}

// update is one call of Update.
type update struct {
	bucket   *Bucket
	resource string
	grant    fence.Grant
	nonce    string // names this write, in each of its attempts: only one of them can take effect
	edit     func(*Edit) error
	read     reader

	sent   *sent // nil unless a request may have taken effect or still may
	paused int   // how often
}

// sent is an attempt that was not answered by success.
type sent struct {
	base string // nonce of the object it was to replace
	err  error
	// doubt is the first error, of this attempt or one before it on the same object, that does not exclude that the attempt took
	// effect; nil if all do. A later answer settles nothing about an earlier request.
	doubt error
}

// attempted notes an attempt that failed. Another one is made while the former is undecided only on the object that this one was
// to replace, so what settles one of them settles both.
func (u *update) attempted(base string, err error) {
	s := &sent{base: base, err: err}
	if u.sent != nil {
		s.doubt = u.sent.doubt
	}
	if s.doubt == nil && !definite(err) {
		s.doubt = err
	}
	u.sent = s
}

// definite tells whether the answer excludes that the attempt took effect. A client that sent the request twice may have been
// refused because of itself.
func definite(err error) bool {
	return errors.Is(err, ErrConflict) && !errors.Is(err, ErrRepeated)
}

// run tries until an attempt decides. One that lost the race begins again at once: somebody else's write took effect, so of
// many writers one always gets on, and who waits may find that the object no longer names its own write.
func (u *update) run(ctx context.Context) error {
	for {
		if err := ended.Err(ctx); err != nil {
			return u.fail(fmt.Errorf("write %s: %w", u.resource, err))
		}
		done, err := u.attempt(ctx)
		if err != nil {
			return u.fail(err)
		}
		if done {
			return nil
		}
	}
}

// fail gives the error of a write that ends without success.
func (u *update) fail(err error) error {
	if u.sent == nil {
		return err
	}
	return &UncertainError{Resource: u.resource, Err: ended.Join(err, u.sent.err, u.sent.doubt)}
}

// attempt reads, settles what an earlier attempt left open, judges and writes. It is not done if it has to be made again.
func (u *update) attempt(ctx context.Context) (done bool, err error) {
	now, err := u.read(ctx, u.resource)
	if err != nil {
		return false, err
	}
	if done, err := u.settle(ctx, now); done || err != nil {
		return done, err
	}
	if err := fence.Judge(u.resource, now.grant(), u.grant); err != nil {
		return false, err
	}
	body, err := u.compose(now)
	if err != nil {
		return false, err
	}
	if body == nil { // the edit has nothing to write, this time
		err := u.undecided()
		return err == nil, err
	}
	if err := u.bucket.write(ctx, u.resource, now, body); err != nil {
		u.attempted(now.nonce(), err)
		return false, nil
	}
	return true, nil
}

// settle finds out what became of the last attempt. One that failed otherwise than by a conflict, and may still take effect,
// ends the write: the client has tried as often as it was told to.
func (u *update) settle(ctx context.Context, now object) (done bool, err error) {
	if u.sent == nil {
		return false, nil
	}
	switch now.fateOf(u.nonce, u.sent.base) {
	case applied:
		return true, nil
	case refused:
		u.sent = nil
	case untraced:
		if u.sent.doubt != nil {
			return false, errors.Join(fence.Judge(u.resource, now.grant(), u.grant), u.sent.doubt)
		}
		u.sent = nil
	case pending: // a conflict with a request that has not been decided (409)
		if !errors.Is(u.sent.err, ErrConflict) {
			return false, u.sent.err
		}
		u.paused++
		return false, between.Pause(ctx, u.paused)
	}
	return false, nil
}

// undecided is the error of a request that may still take effect, nil if there is none.
func (u *update) undecided() error {
	if u.sent == nil {
		return nil
	}
	return u.sent.doubt
}

// compose gives the body to be written in the place of now, nil if there is nothing to write.
func (u *update) compose(now object) ([]byte, error) {
	e := &Edit{payload: now.payload, exists: now.exists()}
	if err := u.edit(e); err != nil {
		return nil, err
	}
	if !e.changed && now.grant() == u.grant {
		return nil, nil
	}
	payload := now.payload
	if e.changed {
		payload = e.payload
	}
	if len(payload) > u.bucket.cfg.MaxPayload {
		problem := fmt.Sprintf("has %d bytes, %d are allowed", len(payload), u.bucket.cfg.MaxPayload)
		return nil, &fence.FieldError{Field: "payload", Problem: problem}
	}
	env := now.successor(u.grant, u.nonce)
	env.State = absent
	if e.exists {
		env.State = present
	}
	return env.seal(payload)
}

// between are the pauses of one write.
var between = backoff.Backoff{First: 2 * time.Millisecond, Last: 256 * time.Millisecond}
