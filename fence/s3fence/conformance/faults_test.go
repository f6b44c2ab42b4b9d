package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/fence/s3fence"
	"github.com/quorumlock/quorumlock/fence/s3fence/awsstore"
)

const resource = "totals"

// under gives a context that shows a grant of this token and ends in good time.
func under(t testing.TB, token fence.Token) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return fence.NewContext(ctx, fence.Grant{Cluster: "cluster-1", Lock: "job-x", Token: token})
}

func add(word string) func(*s3fence.Edit) error {
	return func(e *s3fence.Edit) error {
		e.Set(append(e.Payload(), word...))
		return nil
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func holds(t testing.TB, b *s3fence.Bucket, want string) {
	t.Helper()
	payload, _, err := b.Get(under(t, 1), resource)
	if err != nil || string(payload) != want {
		t.Fatalf("the payload is %q, %v; want %q", payload, err, want)
	}
}

// The server makes each write and its answer is lost. The write has taken effect once and is told so: by a client that gives up
// at once, and by one that sends it again and is then refused because of itself.
func TestLostAnswers(t *testing.T) {
	s := inMemory(t)
	for name, attempts := range map[string]int{"one attempt": 1, "three attempts": 3} {
		t.Run(name, func(t *testing.T) {
			p := newProxy(t, s.addr)
			b := open(t, store(t, p.addr, attempts))
			must(t, b.Delete(under(t, 41), resource))
			want := ""
			for _, word := range []string{"a", "b", "c"} {
				p.loseAnswer.Store(1)
				must(t, b.Update(under(t, 41), resource, add(word)))
				want += word
				holds(t, b, want)
			}
			if n := p.bitten.Load(); n != 3 {
				t.Errorf("%d answers were lost", n)
			}
		})
	}
}

// The store tells the two conflicts apart: with somebody else's write, which is certain, and with a copy of the request itself.
func TestConflictWithItself(t *testing.T) {
	p := newProxy(t, inMemory(t).addr)
	ctx := under(t, 1)
	patient, hasty := store(t, p.addr, 3), store(t, p.addr, 1)
	p.loseAnswer.Store(1)
	if err := patient.Create(ctx, "a", nil); !errors.Is(err, s3fence.ErrConflict) || !errors.Is(err, s3fence.ErrRepeated) {
		t.Errorf("sent twice: %v", err)
	}
	if err := patient.Create(ctx, "a", nil); !errors.Is(err, s3fence.ErrConflict) || errors.Is(err, s3fence.ErrRepeated) {
		t.Errorf("sent once: %v", err)
	}
	p.loseAnswer.Store(1)
	if err := hasty.Create(ctx, "b", nil); err == nil || errors.Is(err, s3fence.ErrConflict) || errors.Is(err, s3fence.ErrRepeated) {
		t.Errorf("without an answer: %v", err)
	}
	if n := p.bitten.Load(); n != 2 {
		t.Errorf("%d answers were lost", n)
	}
}

// A bucket that is missing is no conflict, which would be tried for ever.
func TestMissingBucket(t *testing.T) {
	b, err := s3fence.New(awsstore.New(client(t, inMemory(t).addr, 1), "elsewhere"), s3fence.Config{})
	must(t, err)
	if err := b.Put(under(t, 1), resource, nil); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

// The successor's write lies behind the one whose answer was lost: it took effect all the same, so it is not told to be stale.
func TestLostAnswerAndSuccessor(t *testing.T) {
	s := inMemory(t)
	p := newProxy(t, s.addr)
	old := open(t, &succeeded{Store: store(t, p.addr, 1), meanwhile: func() {
		must(t, open(t, store(t, s.addr, 1)).Update(under(t, 42), resource, add("new")))
	}})
	p.loseAnswer.Store(1)
	must(t, old.Update(under(t, 41), resource, add("old ")))
	holds(t, old, "old new")
	if err := old.Put(under(t, 41), resource, nil); !errors.Is(err, fence.ErrStaleToken) || errors.Is(err, s3fence.ErrUncertain) {
		t.Errorf("its next write: %v", err)
	}
	if p.bitten.Load() != 1 {
		t.Error("no answer was lost")
	}
}

// succeeded lets the successor write when the first write to the resource has failed.
type succeeded struct {
	s3fence.Store
	meanwhile func()
}

func (s *succeeded) Create(ctx context.Context, key string, body []byte) error {
	err := s.Store.Create(ctx, key, body)
	if err != nil && key == "tests/"+resource {
		s.meanwhile()
	}
	return err
}

func TestDuplicatedRequests(t *testing.T) {
	p := newProxy(t, inMemory(t).addr)
	b := open(t, store(t, p.addr, 1))
	p.twice.Store(true)
	want := ""
	for _, word := range []string{"a", "b", "c", "d"} {
		must(t, b.Update(under(t, 41), resource, add(word)))
		want += word
		holds(t, b, want)
	}
	if p.bitten.Load() < 4 {
		t.Errorf("%d requests were sent twice", p.bitten.Load())
	}
}

// The answer to a read is cut by something that gives no length, as HTTP/1.0 allows: half a body is no object, and what is adopted
// least of all. With a length that is not reached the client notices by itself.
func TestCutAnswerToARead(t *testing.T) {
	s := inMemory(t)
	whole := open(t, store(t, s.addr, 1))
	must(t, whole.Put(under(t, 42), resource, []byte("precious")))
	for how, cut := range map[string]func(w io.Writer, etag string, body []byte){
		"no length": func(w io.Writer, etag string, body []byte) {
			fmt.Fprintf(w, "HTTP/1.0 200 OK\r\nETag: %s\r\n\r\n%s", etag, body[:5])
		},
		"a length": func(w io.Writer, etag string, body []byte) {
			fmt.Fprintf(w, "HTTP/1.1 200 OK\r\nETag: %s\r\nContent-Length: %d\r\n\r\n%s", etag, len(body), body[:5])
		},
	} {
		p := newProxy(t, s.addr)
		p.cutRead = cut
		b, err := s3fence.New(store(t, p.addr, 1), s3fence.Config{Prefix: "tests/"})
		must(t, err)
		if err := b.Adopt(under(t, 43), resource); err == nil || errors.Is(err, s3fence.ErrUncertain) {
			t.Errorf("%s: Adopt: %v", how, err)
		}
		if _, _, err := b.Get(under(t, 43), resource); err == nil || errors.Is(err, s3fence.ErrUnfenced) {
			t.Errorf("%s: Get: %v", how, err)
		}
		if n := p.bitten.Load(); n != 2 {
			t.Errorf("%s: %d reads were cut", how, n)
		}
		holds(t, whole, "precious")
		if err := whole.Put(under(t, 41), resource, nil); !errors.Is(err, fence.ErrStaleToken) {
			t.Errorf("%s: a stale write: %v", how, err)
		}
	}
}

// No answer at all before ctx ends: the write may have taken effect, and the error says both.
func TestNoAnswer(t *testing.T) {
	p := newProxy(t, inMemory(t).addr)
	b := open(t, store(t, p.addr, 1))
	p.hold.Store(true)
	ctx, cancel := context.WithTimeout(under(t, 41), 300*time.Millisecond)
	defer cancel()
	err := b.Put(ctx, resource, []byte("x"))
	if !errors.Is(err, s3fence.ErrUncertain) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if p.bitten.Load() != 1 {
		t.Errorf("%d writes were held", p.bitten.Load())
	}
}

func TestServerRestart(t *testing.T) {
	dir := t.TempDir()
	s := onDisk(t, "127.0.0.1:0", dir)
	b := open(t, store(t, s.addr, 1))
	must(t, b.Put(under(t, 42), resource, []byte("kept")))
	s.close(t)
	if err := b.Put(under(t, 43), resource, nil); err == nil || errors.Is(err, s3fence.ErrUncertain) {
		t.Errorf("a write while the server is down, which was never sent: %v", err)
	}
	onDisk(t, s.addr, dir)
	holds(t, b, "kept")
	if err := b.Put(under(t, 41), resource, nil); !errors.Is(err, fence.ErrStaleToken) {
		t.Errorf("a stale write after the restart: %v", err)
	}
	must(t, b.Put(under(t, 42), resource, []byte("new")))
}

// The server's clock jumps by years, back and forth; nothing depends on it.
func TestClockIsIrrelevant(t *testing.T) {
	clock := &jumping{}
	b := open(t, store(t, inMemory(t, s3mem.WithTimeSource(clock)).addr, 1))
	for token := fence.Token(40); token < 60; token++ {
		must(t, b.Put(under(t, token), resource, []byte(token.String())))
		if err := b.Put(under(t, token-1), resource, nil); !errors.Is(err, fence.ErrStaleToken) {
			t.Errorf("token %v after %v: %v", token-1, token, err)
		}
		holds(t, b, token.String())
	}
	if clock.asked == 0 {
		t.Error("the server does not use this clock")
	}
}

// jumping is a clock that goes wrong with every look at it.
type jumping struct {
	mu    sync.Mutex
	asked int
}

func (c *jumping) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	return time.Date(2030-c.asked%2*20, 1, c.asked, 0, 0, 0, 0, time.UTC)
}

func (c *jumping) Since(at time.Time) time.Duration { return c.Now().Sub(at) }
