package conformance

import (
	"errors"
	"testing"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/fence/s3fence"
)

// The trap: an ETag is a hash of the content. Without the envelope, a successor that writes the content that is there already
// leaves the ETag as it was, and a condition that the predecessor took from its own read holds still: the stale write passes.
// The same happens when content returns to what it was.
func TestEqualETagTrap(t *testing.T) {
	ctx := under(t, 1)
	bare := store(t, inMemory(t).addr, 1)
	etag := func(key string) string {
		_, etag, err := bare.Get(ctx, key, 1<<20)
		must(t, err)
		return etag
	}
	replace := func(key, content string) {
		must(t, bare.Replace(ctx, key, etag(key), []byte(content)))
	}
	for name, meanwhile := range map[string][]string{
		"the same content":      {"state 1"},
		"the content came back": {"state 2", "state 1"},
	} {
		key := "bare " + name
		must(t, bare.Create(ctx, key, []byte("state 1")))
		old := etag(key) // the predecessor reads, judges, and is paused
		for _, content := range meanwhile {
			replace(key, content) // by the successor
		}
		if err := bare.Replace(ctx, key, old, []byte("stale")); err != nil {
			t.Errorf("%s: the server refuses the stale write (%v): it has no such trap, and this test shows nothing", name, err)
		}
	}
}

// The same with the envelope: the predecessor is paused between its read and its write, the successor writes the same content,
// and the stale write is refused.
func TestEqualETagTrapIsClosed(t *testing.T) {
	addr := inMemory(t).addr
	successor := open(t, store(t, addr, 1))
	old := open(t, store(t, addr, 1))
	must(t, old.Put(under(t, 41), resource, []byte("state 1")))
	first := true
	err := old.Update(under(t, 41), resource, func(e *s3fence.Edit) error { // runs between the read and the write
		if first {
			first = false
			must(t, successor.Put(under(t, 42), resource, []byte("state 2")))
			must(t, successor.Put(under(t, 42), resource, []byte("state 1")))
		}
		e.Set([]byte("stale"))
		return nil
	})
	if !errors.Is(err, fence.ErrStaleToken) || errors.Is(err, s3fence.ErrUncertain) {
		t.Errorf("the stale write: %v", err)
	}
	holds(t, old, "state 1")
}

// A claim is seen by a predecessor between its read and its write, too, although it changes no content.
func TestClaimClosesTheTrap(t *testing.T) {
	addr := inMemory(t).addr
	b := open(t, store(t, addr, 1))
	must(t, b.Put(under(t, 41), resource, []byte("state 1")))
	claim := func() error { return b.Claim(under(t, 42), resource) }
	err := b.Update(under(t, 41), resource, func(e *s3fence.Edit) error {
		e.Set([]byte("stale"))
		return claim()
	})
	if !errors.Is(err, fence.ErrStaleToken) {
		t.Errorf("the stale write: %v", err)
	}
	holds(t, b, "state 1")
}
