//go:build unix

package redisfence_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/fence/redisfence"
	"github.com/quorumlock/quorumlock/internal/servers"
	"github.com/quorumlock/quorumlock/internal/servers/servertest"
)

func split(t testing.TB, addr string) (host, port string) {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	must(t, err)
	return host, port
}

func incr() redisfence.Command { return redisfence.Cmd("INCR", data(resource)) }

// lossy gives the fences of a server through a proxy, and a client past it. That the client would repeat by itself has no part in
// how often a write is sent.
func lossy(t *testing.T, attempts int, settings ...string) (p *proxy, f *redisfence.Fence, direct *redis.Client) {
	t.Helper()
	s := servertest.Redis(t, settings...)
	p = newProxy(t, s.Addr)
	f = newFence(t, dial(t, p.addr, 3), redisfence.Config{Attempts: attempts})
	must(t, f.Claim(under(t, 1), resource)) // the server knows the script from here on
	return p, f, dial(t, s.Addr, -1)
}

// The server runs the commands, its answer is lost, and they are sent again: they have run once.
func TestLostAnswers(t *testing.T) {
	p, f, direct := lossy(t, 4)
	for _, want := range []string{"1", "2", "3"} {
		p.loseNext(nil)
		replies, err := f.Do(under(t, 41), resource, incr())
		if err != nil || replies != nil {
			t.Fatalf("%v, %v", replies, err)
		}
		holds(t, direct, want)
	}
	if p.bitten() != 3 {
		t.Errorf("%d answers were lost", p.bitten())
	}
}

// Without a repetition nobody knows, and the error says so, by the word of package fence too.
func TestLostAnswerWithoutRepetition(t *testing.T) {
	p, f, direct := lossy(t, 1)
	p.loseNext(nil)
	_, err := f.Do(under(t, 41), resource, incr())
	var uncertain *redisfence.UncertainError
	if !errors.Is(err, redisfence.ErrUncertain) || !errors.Is(err, fence.ErrUnknownOutcome) || !errors.As(err, &uncertain) ||
		!errors.Is(err, uncertain.Err) {
		t.Errorf("%v", err)
	}
	if p.bitten() != 1 {
		t.Errorf("%d answers were lost", p.bitten())
	}
	holds(t, direct, "1")
	if err := f.Claim(under(t, 40), resource); !errors.Is(err, fence.ErrStaleToken) || errors.Is(err, fence.ErrUnknownOutcome) {
		t.Errorf("a refusal: %v", err)
	}
}

// A write that ended midway ends the same way for the repetition, which runs nothing.
func TestLostAnswerOfAFailedWrite(t *testing.T) {
	p, f, direct := lossy(t, 4)
	p.loseNext(nil)
	_, err := f.Do(under(t, 41), resource, incr(), redisfence.Cmd("LPUSH", data(resource), "x"))
	var failed *redisfence.CommandError
	if !errors.As(err, &failed) || failed.Index != 1 {
		t.Errorf("%v", err)
	}
	if p.bitten() != 1 {
		t.Errorf("%d answers were lost", p.bitten())
	}
	holds(t, direct, "1")
}

// Writes of successors that come between the write and its repetition do not make it "stale", up to those that the fence remembers;
// beyond them it may have taken effect, and it has.
func TestLostAnswerWithWritesBehindIt(t *testing.T) {
	for _, step := range []fence.Token{0, 1} { // writes of the same holder, and of successors
		p, f, direct := lossy(t, 4)
		other := newFence(t, direct, redisfence.Config{})
		token := fence.Token(1)
		for behind := 1; behind <= 17; behind++ {
			must(t, direct.Set(background(t), string(data(resource)), 0, 0).Err())
			ctx := under(t, token)
			p.loseNext(func() {
				for range behind {
					token += step
					mustDo(t, other, token, incr())
				}
			})
			_, err := f.Do(ctx, resource, incr())
			unknown := errors.Is(err, fence.ErrUnknownOutcome) && errors.Is(err, fence.ErrStaleToken) == (step > 0)
			if behind < 16 && err != nil || behind >= 16 && !unknown {
				t.Errorf("%d behind it: %v", behind, err)
			}
			holds(t, direct, fence.Token(behind+1).String()) // once in any case
		}
		if p.bitten() != 17 {
			t.Errorf("%d answers were lost", p.bitten())
		}
	}
}

// The server hangs: ctx bounds the wait, and the write may yet happen.
func TestServerHangs(t *testing.T) {
	s := servertest.Redis(t)
	f := newFence(t, dial(t, s.Addr, -1), redisfence.Config{})
	must(t, f.Claim(under(t, 1), resource))
	must(t, s.Freeze())
	ctx, cancel := context.WithTimeout(under(t, 1), 200*time.Millisecond)
	defer cancel()
	begin := time.Now()
	_, err := f.Do(ctx, resource, incr())
	if !errors.Is(err, redisfence.ErrUncertain) || time.Since(begin) > 5*time.Second {
		t.Errorf("%v after %v", err, time.Since(begin))
	}
	must(t, s.Thaw())
}

// What a restart keeps is what is in the files: everything if each write is synced, nothing without them.
func TestServerRestart(t *testing.T) {
	servertest.Redis(t) // is installed
	for name, test := range map[string]struct {
		settings []string
		forgets  bool
	}{
		"synced":    {[]string{"--appendonly", "yes", "--appendfsync", "always"}, false},
		"in memory": {nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s, f := startIn(t, dir, test.settings...)
			mustDo(t, f, 42, set("x"))
			s.Kill()
			_, f = startIn(t, dir, test.settings...)
			_, err := f.Do(under(t, 41), resource, set("stale"))
			if test.forgets != (err == nil) || !test.forgets && !errors.Is(err, fence.ErrStaleToken) {
				t.Errorf("a stale write after the restart: %v", err)
			}
		})
	}
}

// startIn starts a server on a directory that another has left.
func startIn(t *testing.T, dir string, settings ...string) (*servers.Server, *redisfence.Fence) {
	t.Helper()
	s, err := servers.Redis(context.Background(), dir, settings...)
	must(t, err) // it is installed: the caller has asked
	t.Cleanup(s.Stop)
	return s, newFence(t, dial(t, s.Addr, -1), redisfence.Config{})
}
