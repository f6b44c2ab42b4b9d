package scenario_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/sim"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// S08: goroutines of one session exclude each other, whether they share a Mutex or not. The counter has no other protection.
func TestGoroutinesOfOneSessionExcludeEachOther(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const goroutines, loops = 50, 6
		c := quorumlocktest.New(t, 3)
		_, f := roles(c)
		s := openSession(t, c.Node(f[0]))
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		shared := quorumlock.NewMutex(s, "k")
		counter, last := 0, quorumlock.Token(0)
		var done sync.WaitGroup
		for i := range goroutines {
			m := shared
			if i%2 == 0 {
				m = quorumlock.NewMutex(s, "k")
			}
			done.Add(1)
			go func() {
				defer done.Done()
				for range loops {
					h, err := m.Lock(ctx)
					if err != nil {
						t.Error(err)
						return
					}
					if h.Token() <= last {
						t.Errorf("token %v after %v", h.Token(), last)
					}
					last = h.Token()
					seen := counter
					time.Sleep(time.Millisecond)
					counter = seen + 1
					if err := h.Unlock(); err != nil {
						t.Error(err)
					}
				}
			}()
		}
		done.Wait()
		if counter != goroutines*loops {
			t.Errorf("counted %d, want %d", counter, goroutines*loops)
		}
		c.CheckState()
	})
}

// S08: misuse gets a typed error, and never ends a hold of somebody else.
func TestUnlockingTwice(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		first := lockIn(t, c.Node(0), "k", 5*time.Second)
		results := make(chan error, 10)
		for range cap(results) {
			go func() { results <- first.Unlock() }()
		}
		released := 0
		for range cap(results) {
			if err := <-results; err == nil {
				released++
			} else if !errors.Is(err, quorumlock.ErrUnlocked) {
				t.Errorf("unlock again: %v", err)
			}
		}
		if released != 1 {
			t.Errorf("%d of the calls released", released)
		}
		second := lockIn(t, c.Node(0), "k", time.Second)
		if err := first.Unlock(); !errors.Is(err, quorumlock.ErrUnlocked) || !errors.Is(first.Err(), quorumlock.ErrUnlocked) {
			t.Errorf("unlock of a former hold: %v, its state: %v", err, first.Err())
		}
		time.Sleep(time.Second)
		if err := second.Err(); err != nil {
			t.Errorf("the present hold: %v", err)
		}
		unlock(t, second)
		c.CheckState()
	})
}

// S11: names that look related have nothing to do with each other.
func TestDistinctNamesDoNotInteract(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		names := []string{
			"a", "a/b", "a/b/", "a/", "/", "//", "..", "../a", ".", " ", "A", "ａ", "a\u0301", "á", "%61", "a%2Fb", "*", "a*", strings.Repeat("n", 512),
		}
		for round := range 2 { // in both orders
			var held []*quorumlock.Hold
			for i := range names {
				name := names[i]
				if round == 1 {
					name = names[len(names)-1-i]
				}
				held = append(held, lockIn(t, c.Node(i%3), name, time.Second))
			}
			for _, h := range held {
				if info := lockShown(t, c, h.Name()); len(info.Holders) != 1 || info.Holders[0].Token != h.Token() {
					t.Errorf("%q: held by %v, want %v", h.Name(), info.Holders, h.Token())
				}
				unlock(t, h)
			}
		}
		c.CheckState()
	})
}

// S11: bad names and notes are refused with a typed error before anything is written.
func TestBadNamesAreRefusedBeforeAnythingIsWritten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		unlock(t, lockIn(t, c.Node(0), "k", 5*time.Second)) // the session is open
		time.Sleep(100 * time.Millisecond)
		before, _ := sim.State(c.Node(0))
		ctx := context.Background()
		for _, name := range []string{
			"", "\x00", "a\x00b", "a\nb", "\x7f", "\u0085", "\xff", "a\xc3", "\xed\xa0\x80", strings.Repeat("n", 513), strings.Repeat("n", 1<<10), strings.Repeat("n", 1<<20),
		} {
			m := quorumlock.NewMutex(c.Node(0), name)
			_, lock := m.Lock(ctx)
			_, try := m.TryLock(ctx)
			do := m.Do(ctx, func(context.Context, quorumlock.Token) error { t.Errorf("%.20q was locked", name); return nil })
			_, inspect := c.Node(0).Inspect(ctx, name)
			for _, err := range []error{lock, try, do, inspect} {
				refused(t, err)
			}
		}
		for _, note := range []string{strings.Repeat("n", 1025), "\xff", "a\x1bb"} {
			_, err := quorumlock.NewMutex(c.Node(0), "k", quorumlock.Note(note)).Lock(ctx)
			refused(t, err)
		}
		if after, _ := sim.State(c.Node(0)); after != before {
			t.Errorf("%d entries were written", after-before)
		}
		unlock(t, lockIn(t, c.Node(0), "k", time.Second))
		c.CheckState()
	})
}

// refused checks that err names an argument, in few words however long that is.
func refused(t *testing.T, err error) {
	t.Helper()
	var field *quorumlock.FieldError
	if !errors.Is(err, quorumlock.ErrInvalid) || !errors.As(err, &field) {
		t.Errorf("error %v, want a FieldError", err)
	} else if len(err.Error()) > 300 {
		t.Errorf("an error of %d bytes", len(err.Error()))
	}
}

// S15, where DESIGN.md rules that TryLock never waits: while others cycle the lock a Lock with a budget uses it up to its end and no longer, or is
// granted in its turn; and a TryLock is answered at once.
func TestBudgetOfAWaitUnderContention(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const budget = 20 * time.Second
		c := quorumlocktest.New(t, 3)
		for _, work := range []time.Duration{time.Second, 3 * time.Second} { // ten turns take less, or more, than the budget
			ctx, cancel := context.WithCancel(context.Background())
			var cyclers sync.WaitGroup
			for i := range 10 {
				cyclers.Add(1)
				go func() { defer cyclers.Done(); cycle(ctx, t, c.Node(i%3), work) }()
			}
			queueBecomes(t, c, "k", 9, 5*time.Second)

			start := time.Now()
			_, err := quorumlock.NewMutex(c.Node(0), "k").TryLock(ctx)
			if took := time.Since(start); !errors.Is(err, quorumlock.ErrLocked) || took > 100*time.Millisecond {
				t.Errorf("TryLock took %v: %v", took, err)
			}
			start = time.Now()
			bounded, stop := context.WithTimeout(ctx, budget)
			h, err := quorumlock.NewMutex(c.Node(0), "k").Lock(bounded)
			stop()
			took := time.Since(start)
			switch {
			case h != nil && 10*work < budget && took <= 10*work+time.Second:
				unlock(t, h)
			case h == nil && 10*work > budget && took >= budget && took <= budget+100*time.Millisecond && errors.Is(err, context.DeadlineExceeded):
			default:
				t.Errorf("work of %v: (%v, %v) after %v", work, h, err, took)
			}
			cancel()
			cyclers.Wait()
			becomesFree(t, c, "k", 2*time.Second)
		}
		c.CheckState()
	})
}

// cycle locks and unlocks "k" until ctx ends.
func cycle(ctx context.Context, t *testing.T, o quorumlock.Owner, work time.Duration) {
	for {
		h, err := quorumlock.NewMutex(o, "k").Lock(ctx)
		if err != nil {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("lock: %v", err)
			}
			return
		}
		time.Sleep(work)
		if err := h.Unlock(); err != nil {
			t.Errorf("unlock: %v", err)
		}
	}
}

// TryLock tells who is in the way: the holder with its note and since when, and how many wait.
func TestTryLockTellsWhoHolds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		a, err := quorumlock.NewMutex(c.Node(0), "k", quorumlock.Note("nightly report")).TryLock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		since := time.Now()
		b := waitQueued(t, c, c.Node(1), "k", 1)
		time.Sleep(time.Second)
		_, err = quorumlock.NewMutex(c.Node(2), "k").TryLock(ctx)
		var locked *quorumlock.LockedError
		if !errors.Is(err, quorumlock.ErrLocked) || !errors.As(err, &locked) {
			t.Fatalf("error %v", err)
		}
		h := locked.Holder
		if h.Node != "node-0" || h.ServerID != c.Node(0).ID() || h.Note != "nightly report" || h.Token != a.Token() || locked.Queue != 1 || locked.Name != "k" {
			t.Errorf("%+v", locked)
		}
		if d := since.Sub(locked.Since).Abs(); d > 100*time.Millisecond {
			t.Errorf("held since %v, told %v", since, locked.Since)
		}
		for _, words := range []string{"k", "node-0", "nightly report", "1 waiting"} {
			if !strings.Contains(err.Error(), words) {
				t.Errorf("%q does not say %q", err, words)
			}
		}
		unlock(t, a)
		unlock(t, b.granted(time.Second))
		unlock(t, lockTried(t, c.Node(2), "k")) // the refused try left nothing behind
		becomesFree(t, c, "k", time.Second)
		c.CheckState()
	})
}

// lockTried takes a lock that must be free.
func lockTried(t *testing.T, o quorumlock.Owner, name string) *quorumlock.Hold {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	h, err := quorumlock.NewMutex(o, name).TryLock(ctx)
	if err != nil {
		t.Fatalf("try lock %q: %v", name, err)
	}
	return h
}

// A wait that ends says what it waited for: the holder and the place in the queue, or the quorum.
func TestWaitErrorSaysWhatItWaitedFor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := quorumlocktest.New(t, 3)
		l, f := roles(c)
		ctx := context.Background()
		a, err := quorumlock.NewMutex(c.Node(l), "k", quorumlock.Note("import")).Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		first := waitQueued(t, c, c.Node(f[1]), "k", 1)

		short, cancel := context.WithTimeoutCause(ctx, time.Second, errors.New("request over"))
		defer cancel()
		b := wait(short, t, c.Node(f[0]), "k")
		b.failed(1100*time.Millisecond, context.DeadlineExceeded)
		var e *quorumlock.WaitError
		if !errors.As(b.err, &e) || e.Holder == nil || e.Holder.Token != a.Token() || e.Holder.Note != "import" || e.Ahead != 1 || e.Op != "lock" || e.Name != "k" {
			t.Errorf("%+v", b.err)
		}
		for _, words := range []string{fmt.Sprintf("held by node-%d", l), "import", "1 ahead", "request over"} {
			if !strings.Contains(b.err.Error(), words) {
				t.Errorf("%q does not say %q", b.err, words)
			}
		}
		if errors.Is(b.err, quorumlock.ErrNoQuorum) {
			t.Errorf("%v blames the quorum", b.err)
		}

		c.Isolate(f[0])
		time.Sleep(time.Second)
		for _, try := range []bool{false, true} {
			cutOff, cancel := context.WithTimeout(ctx, 2*time.Second)
			m := quorumlock.NewMutex(c.Node(f[0]), "free")
			call := m.Lock
			if try {
				call = m.TryLock
			}
			_, err = call(cutOff)
			cancel()
			if !errors.Is(err, quorumlock.ErrNoQuorum) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "of 3 voters answer") {
				t.Errorf("cut off, try %v: %v", try, err)
			}
		}
		c.Heal()
		c.WaitReady()
		unlock(t, a)
		unlock(t, first.granted(time.Second))
		becomesFree(t, c, "free", ghostBound)
		c.CheckState()
	})
}
