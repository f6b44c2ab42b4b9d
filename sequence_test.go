package quorumlock

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"
)

// sessionAlone is a session of a cluster of one, and a context that bounds the test.
func sessionAlone(t *testing.T) (*Session, context.Context) {
	t.Helper()
	n := nodeAlone(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	s, err := n.NewSession(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	return s, ctx
}

// inLine waits until that many requests wait for their turn.
func inLine(ctx context.Context, t *testing.T, s *Session, want int) {
	t.Helper()
	for {
		s.mu.Lock()
		n := s.line.Len()
		s.mu.Unlock()
		if n == want {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("%d requests wait for their turn, not %d", n, want)
		}
		runtime.Gosched()
	}
}

// A request without an answer holds back those that come much later, in order, and none of them is refused or leaves anything behind; releases go on.
func TestRequestsWaitForOneThatIsMuchOlder(t *testing.T) {
	s, ctx := sessionAlone(t)
	begin := func(ctx context.Context) (uint64, error) {
		seq, _, err := s.begin(ctx, "lock", "a")
		if err == nil {
			s.mu.Unlock()
		}
		return seq, err
	}
	held, err := NewMutex(s, "held").Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	slow, err := begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for range maxAhead - 2 {
		seq, err := begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		s.finish(seq)
	}
	if free, err := NewMutex(s, "a").TryLock(ctx); err != nil || free.Unlock() != nil {
		t.Errorf("the last one ahead: %v", err)
	}

	var turns [3]uint64
	taken := make(chan struct{})
	for i := range turns {
		go func() { turns[i], _ = begin(ctx); taken <- struct{}{} }()
		inLine(ctx, t, s, i+1)
	}
	short, giveUp := context.WithCancel(ctx)
	refused := make(chan error)
	go func() { _, err := NewMutex(s, "a").TryLock(short); refused <- err }()
	inLine(ctx, t, s, 4)
	giveUp()
	var wait *WaitError
	if err := <-refused; !errors.Is(err, context.Canceled) || errors.Is(err, ErrOverloaded) || !errors.As(err, &wait) || !wait.unsent || wait.Name != "a" {
		t.Errorf("giving up: %v", err)
	}
	inLine(ctx, t, s, 3)
	if err := held.Unlock(); err != nil {
		t.Errorf("a release: %v", err)
	}
	s.finish(slow)
	for range turns {
		<-taken
	}
	if turns[0] == 0 || turns[1] != turns[0]+1 || turns[2] != turns[0]+2 {
		t.Errorf("turns: %v", turns)
	}
	for _, seq := range turns {
		s.finish(seq)
	}
	s.mu.Lock()
	open, floor, last := len(s.open), s.floor, s.seq
	s.mu.Unlock()
	if open != 0 || floor != last+1 {
		t.Errorf("%d sequences are open, the floor is %d of %d", open, floor, last)
	}
	if h, err := NewMutex(s, "a").Lock(ctx); err != nil || h.Unlock() != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// Whoever waits for a turn hears of the session's end at once.
func TestSessionEndsWhileRequestsWaitForTheirTurn(t *testing.T) {
	s, ctx := sessionAlone(t)
	for range maxAhead {
		if _, _, err := s.begin(ctx, "lock", "a"); err != nil {
			t.Fatal(err)
		}
		s.mu.Unlock()
	}
	refused := make(chan error)
	go func() { _, err := NewMutex(s, "a").Lock(ctx); refused <- err }()
	inLine(ctx, t, s, 1)
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if err := <-refused; !errors.Is(err, ErrLost) {
		t.Errorf("a lock of a closed session: %v", err)
	}
}
