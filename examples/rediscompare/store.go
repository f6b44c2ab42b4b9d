//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/fence"

	"github.com/quorumlock/quorumlock/internal/demokit"
)

// store is the resource that the lock protects: two copies of one counter, of which one is behind a fence. It also keeps what
// the workers say of their grants. Each fault has a store of its own.
type store struct {
	start time.Time
	guard fence.Guard

	mu      sync.Mutex
	plain   counter
	fenced  counter
	refused int
	tokens  bool
	beliefs []belief          // grant n is beliefs[n-1]
	tokenOf []fence.Grant     // what grant n shows to the fence, zero if it has nothing to show
	failure error             // of a worker
	traps   map[string]func() // by worker
	changed chan struct{}     // closed, and replaced, at each change
}

func newStore() *store {
	return &store{start: time.Now(), traps: make(map[string]func()), changed: make(chan struct{})}
}

// resource is the fenced counter's name.
const resource = "counter"

// The messages of the workers, in the order of one hold: granted once, then read and write in turn, then ended.
type (
	grantedMessage struct {
		Worker string
		Grant  *fence.Grant `json:",omitempty"` // nil: the lock gives no token
	}
	readMessage struct {
		ID   int
		Held time.Duration // the newest stamp after which the worker was told that it holds
	}
	values struct {
		Plain, Fenced int
		Refused       bool // the fence let the reader not even claim
	}
	writeMessage struct {
		ID int
		values
	}
	stamped struct {
		ID int
		At time.Duration // of the parent's clock
	}
	endedMessage  struct{ ID int }
	failedMessage struct{ Worker, Error string }
)

func (s *store) granted(m grantedMessage) stamped {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.now()
	s.beliefs = append(s.beliefs, belief{worker: m.Worker, begin: at, end: at})
	var token fence.Grant
	if m.Grant != nil {
		token, s.tokens = *m.Grant, true
	}
	s.tokenOf = append(s.tokenOf, token)
	s.raise()
	return stamped{ID: len(s.beliefs), At: at}
}

// read gives the values that the worker's next write is made from. A trap for the worker is sprung before the answer leaves:
// the worker has asked its lock, and not written yet.
func (s *store) read(m readMessage) (values, error) {
	s.mu.Lock()
	b, err := s.belief(m.ID)
	if err != nil {
		s.mu.Unlock()
		return values{}, err
	}
	b.confirmed, b.end = true, max(b.end, m.Held)
	v := values{Plain: s.plain.value}
	grant, worker := s.tokenOf[m.ID-1], b.worker
	s.raise()
	s.mu.Unlock()
	if grant != (fence.Grant{}) {
		// The claim and the read are one step, so the fence orders what is read too.
		err := s.guarded(grant, func() { v.Fenced = s.fenced.value })
		v.Refused = errors.Is(err, fence.ErrStaleToken)
		if err != nil && !v.Refused {
			return values{}, err
		}
	}
	if trap := s.takeTrap(worker); trap != nil {
		trap()
	}
	return v, nil
}

// write takes what the worker made of what it had read. The copy without a fence takes it whoever it comes from.
func (s *store) write(m writeMessage) (stamped, error) {
	s.mu.Lock()
	if _, err := s.belief(m.ID); err != nil {
		s.mu.Unlock()
		return stamped{}, err
	}
	s.plain.write(m.Plain)
	grant := s.tokenOf[m.ID-1]
	s.mu.Unlock()
	refused := false
	if grant != (fence.Grant{}) && !m.Refused {
		err := s.guarded(grant, func() { s.fenced.write(m.Fenced) })
		refused = errors.Is(err, fence.ErrStaleToken)
		if err != nil && !refused {
			return stamped{}, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.beliefs[m.ID-1].writes++
	if refused {
		s.refused++
	}
	s.raise()
	return stamped{ID: m.ID, At: s.now()}, nil
}

func (s *store) guarded(g fence.Grant, do func()) error {
	return s.guard.Do(fence.NewContext(context.Background(), g), resource, func(context.Context) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		do()
		return nil
	})
}

func (s *store) end(m endedMessage) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, err := s.belief(m.ID)
	if err != nil {
		return err
	}
	b.ended = true
	s.raise()
	return nil
}

// fail notes that a worker cannot go on, for whoever waits for it.
func (s *store) fail(m failedMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failure = errors.Join(s.failure, fmt.Errorf("%s: %s", m.Worker, m.Error))
	s.raise()
}

func (s *store) belief(id int) (*belief, error) {
	if id < 1 || id > len(s.beliefs) {
		return nil, fmt.Errorf("no grant %d", id)
	}
	return &s.beliefs[id-1], nil
}

func (s *store) raise() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// trap has f called, once, at the next read of a worker, before the answer leaves.
func (s *store) trap(worker string, f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.traps[worker] = f
}

func (s *store) takeTrap(worker string) func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.traps[worker]
	delete(s.traps, worker)
	return f
}

// view is the store's beliefs at one moment.
type view struct {
	beliefs []belief
	failure error
	changed <-chan struct{} // closed when it is out of date
}

func (s *store) view() view {
	s.mu.Lock()
	defer s.mu.Unlock()
	return view{beliefs: slices.Clone(s.beliefs), failure: s.failure, changed: s.changed}
}

func (s *store) tally() tally {
	s.mu.Lock()
	defer s.mu.Unlock()
	return tally{
		grants: len(s.beliefs), overlaps: overlaps(s.beliefs),
		plain: s.plain, fenced: s.fenced, tokens: s.tokens, refused: s.refused,
	}
}

func (s *store) now() time.Duration { return time.Since(s.start) }

// shownToken is the token of a grant for people, nothing if it has none.
func (s *store) shownToken(id int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.tokenOf[id-1]
	if g.Token == 0 {
		return ""
	}
	return fmt.Sprintf(", token %v", g.Token)
}

// await waits until done says so. It gives up when a worker fails, and when ctx ends; the error is then its cause.
func (s *store) await(ctx context.Context, done func(view) bool) error {
	for {
		v := s.view()
		if done(v) || v.failure != nil {
			return v.failure
		}
		select {
		case <-v.changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// grant is the newest grant of a worker, 0 if it has had none.
func (v view) grant(worker string) int {
	for i := len(v.beliefs) - 1; i >= 0; i-- {
		if v.beliefs[i].worker == worker {
			return i + 1
		}
	}
	return 0
}

// serve answers the workers at url, until stop is called.
func (s *store) serve() (url string, stop func(), err error) {
	mux := http.NewServeMux()
	handle(mux, "/granted", func(m grantedMessage) (stamped, error) { return s.granted(m), nil })
	handle(mux, "/read", s.read)
	handle(mux, "/write", s.write)
	handle(mux, "/failed", func(m failedMessage) (struct{}, error) { s.fail(m); return struct{}{}, nil })
	handle(mux, "/ended", func(m endedMessage) (struct{}, error) { return struct{}{}, s.end(m) })
	return serveHTTP(mux)
}

func serveHTTP(h http.Handler) (url string, stop func(), err error) {
	ln, err := net.Listen("tcp", demokit.Loopback)
	if err != nil {
		return "", nil, fmt.Errorf("serve: %w", err)
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(ln) // ends by stop
	}()
	return "http://" + ln.Addr().String(), func() { _ = server.Close(); <-done }, nil
}
