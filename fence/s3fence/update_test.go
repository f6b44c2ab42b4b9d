package s3fence

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/fence"
)

const resource = "r"

// under gives a context that shows a grant of this token and ends in good time.
func under(t testing.TB, token fence.Token) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return fence.NewContext(ctx, fence.Grant{Cluster: "c", Lock: "l", Token: token})
}

func bucketOn(t testing.TB, s *scripted) *Bucket {
	t.Helper()
	b, err := New(s, Config{MaxPayload: 1 << 10})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// add appends a word to the payload.
func add(word string) func(*Edit) error {
	return func(e *Edit) error {
		e.Set(append(e.Payload(), word+" "...))
		return nil
	}
}

func payload(t testing.TB, b *Bucket) string {
	t.Helper()
	p, _, err := b.Get(context.Background(), resource)
	if err != nil {
		t.Fatal(err)
	}
	return string(p)
}

// first lets a fault befall the first write only.
func first(f fault) func(int) fault {
	return func(n int) fault {
		if n == 1 {
			return f
		}
		return none
	}
}

// A write whose answer was lost has taken effect once, however it was lost and whatever came after it.
func TestLostAnswers(t *testing.T) {
	for name, f := range map[string]fault{"unanswered": unanswered, "sent twice by the client": repeated} {
		t.Run(name, func(t *testing.T) {
			for _, existing := range []bool{false, true} {
				s := &scripted{}
				b := bucketOn(t, s)
				want := ""
				if existing {
					want = "before "
					must(t, b.Put(under(t, 1), resource, []byte(want)))
					s.puts = 0
				}
				s.put = first(f)
				must(t, b.Update(under(t, 1), resource, add("once")))
				if got := payload(t, b); got != want+"once " || s.puts != 1 {
					t.Errorf("existing %v: %q after %d writes", existing, got, s.puts)
				}
			}
		})
	}
}

// Its trace is in the object after later writes, too: up to those that an object remembers. The answer then is not "stale",
// though a successor has been there.
func TestLostAnswerWithWritesBehindIt(t *testing.T) {
	for f, says := range map[fault]error{unanswered: errWire, repeated: ErrRepeated} {
		for behind := 1; behind <= remembered+3; behind++ {
			for _, existing := range []bool{false, true} {
				lostAnswerWithWritesBehindIt(t, f, says, behind, existing)
			}
		}
	}
}

func lostAnswerWithWritesBehindIt(t *testing.T, f fault, says error, behind int, existing bool) {
	s := &scripted{}
	b := bucketOn(t, s)
	if existing {
		must(t, b.Claim(under(t, 1), resource))
		s.puts = 0
	}
	s.put = first(f)
	s.afterFirstPut(func() {
		for i := range behind {
			must(t, b.Update(under(t, fence.Token(2+i)), resource, add("later")))
		}
	})
	err := b.Update(under(t, 1), resource, add("once"))
	traced := behind <= remembered
	if traced && err != nil {
		t.Errorf("%d behind it: %v", behind, err)
	}
	if !traced && (!errors.Is(err, fence.ErrUnknownOutcome) || !errors.Is(err, fence.ErrStaleToken) || !errors.Is(err, says)) {
		t.Errorf("%d behind it, beyond trace: %v", behind, err)
	}
	if got, want := payload(t, b), "once "+strings.Repeat("later ", behind); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A conflict of a request that was sent once is certain, however many writes took its place: it is made again, or refused, and
// never called uncertain.
func TestRaceLostToManyWrites(t *testing.T) {
	for _, token := range []fence.Token{1, 2} {
		s := &scripted{}
		b := bucketOn(t, s)
		must(t, b.Claim(under(t, 1), resource))
		s.puts = 0
		s.put = first(busy) // its condition would not hold after what follows
		s.afterFirstPut(func() {
			for range remembered + 3 {
				must(t, b.Update(under(t, token), resource, add("other")))
			}
		})
		err := b.Update(under(t, 1), resource, add("mine"))
		want := strings.Repeat("other ", remembered+3)
		if token == 1 {
			must(t, err)
			want += "mine "
		} else if !errors.Is(err, fence.ErrStaleToken) || errors.Is(err, ErrUncertain) {
			t.Errorf("%v", err)
		}
		if got := payload(t, b); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// The first attempt's first copy is on its way still when its second one is refused because of it (409), so that the write is tried
// again; then the first copy arrives, others write behind it, and the second attempt is refused too, for certain. That settles
// nothing about the first one: where its trace is gone it may have taken effect, and it has.
func TestDoubtOutlivesTheNextAttempt(t *testing.T) {
	for _, token := range []fence.Token{1, 2} { // writes of the same holder, and of a successor
		for behind := range remembered + 4 {
			s := &scripted{}
			b := bucketOn(t, s)
			must(t, b.Put(under(t, 1), resource, []byte("before ")))
			s.puts = 0
			s.put = func(n int) fault {
				switch n {
				case 1:
					return late
				case 2:
					return overtaken
				}
				return none
			}
			s.overtake = func() {
				s.deliver()
				for range behind {
					must(t, b.Update(under(t, token), resource, add("later")))
				}
			}
			err := b.Update(under(t, 1), resource, add("once"))
			traced := behind <= remembered
			stale := token > 1
			if traced && err != nil {
				t.Errorf("%d behind it: %v", behind, err)
			}
			if !traced && (!errors.Is(err, fence.ErrUnknownOutcome) || !errors.Is(err, ErrRepeated) || errors.Is(err, fence.ErrStaleToken) != stale) {
				t.Errorf("%d behind it, beyond trace: %v", behind, err)
			}
			if got, want := payload(t, b), "before once "+strings.Repeat("later ", behind); got != want {
				t.Errorf("%d behind it: %q, want %q", behind, got, want)
			}
			if s.puts != 2+behind {
				t.Errorf("%d behind it: %d writes", behind, s.puts)
			}
		}
	}
}

// An edit that has nothing to write any more, when it runs again, does not undo the request that is still on its way.
func TestEditThatThinksBetterOfIt(t *testing.T) {
	s := &scripted{}
	b := bucketOn(t, s)
	must(t, b.Put(under(t, 1), resource, []byte("before ")))
	s.puts, s.put = 0, first(late)
	runs := 0
	err := b.Update(under(t, 1), resource, func(e *Edit) error {
		if runs++; runs == 1 {
			return add("once")(e)
		}
		return nil
	})
	if !errors.Is(err, fence.ErrUnknownOutcome) || runs != 2 {
		t.Errorf("after %d runs: %v", runs, err)
	}
	s.deliver()
	if got := payload(t, b); got != "before once " {
		t.Errorf("%q: the request did not arrive, so this test shows nothing", got)
	}
}

// What an edit does to the payload it was given counts by Set only, whether the grant has changed or not.
func TestPayloadChangedInPlace(t *testing.T) {
	b := bucketOn(t, &scripted{})
	must(t, b.Put(under(t, 1), resource, []byte("abc")))
	scribble := func(e *Edit) error {
		e.Payload()[0] = 'X'
		return nil
	}
	for token := fence.Token(1); token <= 2; token++ {
		must(t, b.Update(under(t, token), resource, scribble))
		if got := payload(t, b); got != "abc" {
			t.Errorf("under %v: %q", token, got)
		}
	}
	must(t, b.Update(under(t, 2), resource, func(e *Edit) error {
		if err := scribble(e); err != nil {
			return err
		}
		e.Set(e.Payload())
		return nil
	}))
	if got := payload(t, b); got != "Xbc" {
		t.Errorf("with Set: %q", got)
	}
}

// A request that gets no answer and has not taken effect may still do so: that is what the error says, by the word of package
// fence too.
func TestDelayedRequest(t *testing.T) {
	for _, arrives := range []bool{true, false} {
		s := &scripted{put: first(delayed)}
		b := bucketOn(t, s)
		err := b.Update(under(t, 1), resource, add("late"))
		if !errors.Is(err, ErrUncertain) || !errors.Is(err, fence.ErrUnknownOutcome) || !errors.Is(err, errWire) {
			t.Fatalf("the write: %v", err)
		}
		if arrives {
			s.deliver()
		}
		must(t, b.Claim(under(t, 2), resource))
		s.deliver() // too late now
		_, g, err := b.Get(context.Background(), resource)
		if g.Token != 2 || (err == nil) != arrives {
			t.Errorf("arrives %v: token %v, %v", arrives, g.Token, err)
		}
	}
}

// A conflict with a request that comes to nothing is not the end.
func TestConflictWithNothing(t *testing.T) {
	s := &scripted{put: func(n int) fault {
		if n <= 3 {
			return busy
		}
		return none
	}}
	b := bucketOn(t, s)
	must(t, b.Put(under(t, 1), resource, []byte("x")))
	if s.puts != 4 {
		t.Errorf("%d writes", s.puts)
	}
	s.put = func(int) fault { return busy }
	ctx, cancel := context.WithTimeout(under(t, 1), 20*time.Millisecond)
	defer cancel()
	if err := b.Put(ctx, resource, []byte("y")); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrConflict) {
		t.Errorf("a store that is busy for ever: %v", err)
	}
}

// Writers add words through a network that loses, delays and repeats; each word is there once if its write was acknowledged, at
// most once if that is uncertain, and not at all if it was refused.
func TestExactlyOnce(t *testing.T) {
	const seeds, writers, each = 60, 4, 6
	faults := map[fault]int{}
	outcomes := map[string]int{}
	var mu sync.Mutex
	for seed := range uint64(seeds) {
		s := &scripted{}
		random := rand.New(rand.NewPCG(seed, 5))
		s.put = func(int) fault { // under the store's lock
			f := fault(random.IntN(2 * int(late+1)))
			if f > late {
				f = none
			}
			mu.Lock()
			faults[f]++
			mu.Unlock()
			return f
		}
		b := bucketOn(t, s)
		result := map[string]error{}
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				for n := range each {
					word := fmt.Sprintf("%d.%d", w, n)
					err := b.Update(under(t, fence.Token(1+n)), resource, add(word))
					if n == each/2 {
						s.deliver()
					}
					mu.Lock()
					result[word] = err
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		s.deliver()
		text := payload(t, b)
		for word, err := range result {
			n := strings.Count(" "+text, " "+word+" ")
			switch {
			case err == nil && n == 1:
				outcomes["acknowledged"]++
			case errors.Is(err, ErrUncertain) && errors.Is(err, fence.ErrUnknownOutcome) && n <= 1:
				outcomes[fmt.Sprintf("uncertain, %d", n)]++
			case errors.Is(err, fence.ErrStaleToken) && !errors.Is(err, fence.ErrUnknownOutcome) && n == 0:
				outcomes["refused"]++
			default:
				t.Errorf("seed %d: %q is there %d times: %v", seed, word, n, err)
			}
		}
	}
	for f := none; f <= late; f++ {
		if faults[f] == 0 {
			t.Errorf("fault %d did not happen", f)
		}
	}
	for _, o := range []string{"acknowledged", "uncertain, 0", "uncertain, 1", "refused"} {
		if outcomes[o] == 0 {
			t.Errorf("no write ended as %s", o)
		}
	}
	t.Logf("faults %v, outcomes %v", faults, outcomes)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
