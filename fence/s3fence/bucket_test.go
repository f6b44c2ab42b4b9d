package s3fence

import (
	"context"
	"errors"
	"testing"

	"github.com/quorumlock/quorumlock/fence"
)

// A deleted resource has no payload, and refuses stale writers still; a bare DeleteObject makes it forget them, which is why it
// should be denied.
func TestDeleteKeepsTheFence(t *testing.T) {
	s := &scripted{}
	b := bucketOn(t, s)
	must(t, b.Put(under(t, 42), resource, []byte("x")))
	must(t, b.Delete(under(t, 42), resource))
	if _, g, err := b.Get(context.Background(), resource); !errors.Is(err, ErrNotFound) || g.Token != 42 {
		t.Errorf("after the deletion: %v, %v", g, err)
	}
	if err := b.Put(under(t, 41), resource, []byte("stale")); !errors.Is(err, fence.ErrStaleToken) {
		t.Errorf("a stale write: %v", err)
	}
	must(t, b.Update(under(t, 43), resource, func(e *Edit) error {
		if e.Exists() || e.Payload() != nil {
			t.Errorf("the edit sees %q", e.Payload())
		}
		e.Set(nil)
		return nil
	}))
	if p, _, err := b.Get(context.Background(), resource); err != nil || len(p) != 0 {
		t.Errorf("an empty payload: %q, %v", p, err)
	}

	must(t, s.Delete(context.Background(), b.Key(resource)))
	if err := b.Put(under(t, 41), resource, []byte("stale")); err != nil {
		t.Errorf("with its object deleted past the fence, it still refuses: %v", err)
	}
}

func TestUnfencedObject(t *testing.T) {
	s := &scripted{}
	b := bucketOn(t, s)
	bare := []byte("written by another program")
	must(t, s.Create(context.Background(), b.Key(resource), bare))
	for name, write := range map[string]func() error{
		"put":    func() error { return b.Put(under(t, 1), resource, nil) },
		"claim":  func() error { return b.Claim(under(t, 1), resource) },
		"delete": func() error { return b.Delete(under(t, 1), resource) },
		"get":    func() error { _, _, err := b.Get(context.Background(), resource); return err },
	} {
		if err := write(); !errors.Is(err, ErrUnfenced) {
			t.Errorf("%s: %v", name, err)
		}
	}
	must(t, b.Adopt(under(t, 42), resource))
	if p, g, err := b.Get(context.Background(), resource); err != nil || string(p) != string(bare) || g.Token != 42 {
		t.Errorf("after the adoption: %q, %v, %v", p, g, err)
	}
	if err := b.Adopt(under(t, 41), resource); !errors.Is(err, fence.ErrStaleToken) {
		t.Errorf("an adoption by a stale holder: %v", err)
	}
	must(t, b.Adopt(under(t, 43), resource)) // a claim
	if got := payload(t, b); got != string(bare) {
		t.Errorf("after another: %q", got)
	}
}

// What costs a request is known: a claim that is not needed costs no write.
func TestClaimTwice(t *testing.T) {
	s := &scripted{}
	b := bucketOn(t, s)
	must(t, b.Claim(under(t, 1), resource))
	must(t, b.Claim(under(t, 1), resource))
	if s.puts != 1 {
		t.Errorf("%d writes", s.puts)
	}
	if _, g, err := b.Get(context.Background(), resource); !errors.Is(err, ErrNotFound) || g.Token != 1 {
		t.Errorf("claimed: %v, %v", g, err)
	}
}

func TestPayloadTooLarge(t *testing.T) {
	s := &scripted{}
	b := bucketOn(t, s)
	if err := b.Put(under(t, 1), resource, make([]byte, 1<<10+1)); !errors.Is(err, fence.ErrInvalid) || s.puts != 0 {
		t.Errorf("%v after %d writes", err, s.puts)
	}
	must(t, b.Put(under(t, 1), resource, make([]byte, 1<<10)))
	small, err := New(s, Config{MaxPayload: 1})
	must(t, err)
	// Within the room for the envelope it is read, beyond it is not.
	must(t, bucketLarge(t, s).Put(under(t, 1), resource, make([]byte, 2*maxEnvelope)))
	if _, _, err := small.Get(context.Background(), resource); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a payload beyond the limit: %v", err)
	}
	if err := small.Put(under(t, 1), resource, nil); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a write over it: %v", err)
	}
}

func bucketLarge(t testing.TB, s *scripted) *Bucket {
	t.Helper()
	b, err := New(s, Config{})
	must(t, err)
	return b
}

func TestEditFails(t *testing.T) {
	s := &scripted{}
	b := bucketOn(t, s)
	mine := errors.New("mine")
	if err := b.Update(under(t, 1), resource, func(e *Edit) error { e.Set([]byte("x")); return mine }); err != mine || s.puts != 0 {
		t.Errorf("%v after %d writes", err, s.puts)
	}
	if err := b.Update(under(t, 1), resource, nil); !errors.Is(err, fence.ErrInvalid) || s.puts != 0 {
		t.Errorf("no edit: %v after %d writes", err, s.puts)
	}
	ctx, cancel := context.WithCancelCause(under(t, 1))
	cancel(mine)
	if err := b.Put(ctx, resource, nil); !errors.Is(err, context.Canceled) || !errors.Is(err, mine) {
		t.Errorf("after the end of the context: %v", err)
	}
}
