package conformance

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/fence/s3fence"
)

// overtaken lets somebody else in between what the first write to the resource was judged by, and the write.
type overtaken struct {
	s3fence.Store
	armed     atomic.Bool
	meanwhile func()
}

func (o *overtaken) Replace(ctx context.Context, key, etag string, body []byte) error {
	if key == "tests/"+resource && o.armed.CompareAndSwap(true, false) {
		o.meanwhile()
	}
	return o.Store.Replace(ctx, key, etag, body)
}

// S78 and S79, as far as fencing: what is large is an object of its own, and the fenced one names the latest that is whole. A leader that was cut off during its upload and
// goes on after its successor's does not move the name back, whether it comes back before it reads the name or in the middle of moving it; an unfenced name goes back.
func TestS79LatestMovesForward(t *testing.T) {
	s := inMemory(t)
	plain := store(t, s.addr, 1)
	successor := open(t, plain)
	former := &overtaken{Store: plain}
	old := open(t, former)

	upload := func(name string) { must(t, plain.Create(under(t, 1), name, []byte("snapshot "+name))) }
	point := func(b *s3fence.Bucket, token fence.Token, name string) error {
		return b.Put(under(t, token), resource, []byte(name))
	}
	unfenced := func(name string) {
		_ = plain.Delete(under(t, 1), "unfenced")
		must(t, plain.Create(under(t, 1), "unfenced", []byte(name)))
	}

	upload("41-1")
	must(t, point(old, 41, "41-1"))
	former.meanwhile = func() {
		upload("42-1")
		must(t, point(successor, 42, "42-1"))
		unfenced("42-1")
	}
	former.armed.Store(true)
	upload("41-2")
	if err := point(old, 41, "41-2"); !errors.Is(err, fence.ErrStaleToken) {
		t.Errorf("in the middle of moving the name: %v", err)
	}
	if former.armed.Load() {
		t.Fatal("nobody came in between")
	}
	if err := point(old, 41, "41-2"); !errors.Is(err, fence.ErrStaleToken) {
		t.Errorf("before it read the name: %v", err)
	}
	holds(t, successor, "42-1")

	unfenced("41-2")
	if body, _, err := plain.Get(under(t, 1), "unfenced", 1<<10); err != nil || string(body) != "41-2" {
		t.Errorf("the unfenced name did not go back, so nothing was shown: %q, %v", body, err)
	}
}
