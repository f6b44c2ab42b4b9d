//go:build unix

package redisfence_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/fence/redisfence"
	"github.com/quorumlock/quorumlock/fence/redisfence/goredis"
	"github.com/quorumlock/quorumlock/internal/servers/servertest"
)

// The write takes effect, its answer is lost, and the server answers the repetition by an error that says nothing was written. That
// is true of the repetition, and not of the write.
func TestRefusalOfARepetition(t *testing.T) {
	for name, test := range map[string]struct {
		harm, undo func(t *testing.T, direct *redis.Client)
		code       string
	}{
		"busy": {
			func(t *testing.T, direct *redis.Client) {
				loop := dial(t, direct.Options().Addr, -1)
				ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
				defer cancel()
				_ = loop.Eval(ctx, "while true do end", nil).Err()
			},
			func(t *testing.T, direct *redis.Client) {
				must(t, direct.ScriptKill(background(t)).Err())
				eventually(t, "the script has ended", func(ctx context.Context) bool { return direct.Ping(ctx).Err() == nil })
			}, "BUSY",
		},
		"no right": {
			func(t *testing.T, direct *redis.Client) {
				must(t, direct.Do(background(t), "ACL", "SETUSER", "default", "-evalsha").Err())
			},
			func(*testing.T, *redis.Client) {}, "NOPERM",
		},
		"no primary": {
			func(t *testing.T, direct *redis.Client) {
				must(t, direct.ConfigSet(background(t), "replica-serve-stale-data", "no").Err())
				must(t, direct.ReplicaOf(background(t), "127.0.0.1", "1").Err())
			},
			func(t *testing.T, direct *redis.Client) { must(t, direct.ReplicaOf(background(t), "NO", "ONE").Err()) }, "MASTERDOWN",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, f, direct := lossy(t, 2, "--busy-reply-threshold", "10")
			p.loseNext(func() { test.harm(t, direct) })
			_, err := f.Do(under(t, 41), resource, incr())
			var refused *redisfence.ServerError
			if !errors.Is(err, fence.ErrUnknownOutcome) || !errors.As(err, &refused) || !strings.HasPrefix(refused.Message, test.code) {
				t.Errorf("with a lost answer: %v", err)
			}
			_, err = f.Do(under(t, 41), resource, incr())
			if errors.Is(err, fence.ErrUnknownOutcome) || !errors.As(err, &refused) || !strings.HasPrefix(refused.Message, test.code) {
				t.Errorf("with none lost: %v", err)
			}
			test.undo(t, direct)
			holds(t, direct, "1")
			if p.bitten() != 1 {
				t.Errorf("%d answers were lost", p.bitten())
			}
		})
	}
}

// Two writes end midway, and the second one before the first one's repetition: each is told its own failure. The fence keeps no more
// failures than it knows writes.
func TestFailuresOfSeveralWrites(t *testing.T) {
	p, f, direct := lossy(t, 4)
	other := newFence(t, direct, redisfence.Config{})
	fails := func(f *redisfence.Fence, before int) {
		t.Helper()
		commands := slices.Repeat([]redisfence.Command{incr()}, before)
		commands = append(commands, redisfence.Cmd("LPUSH", data(resource), "x"), incr())
		_, err := f.Do(under(t, 41), resource, commands...)
		var failed *redisfence.CommandError
		if !errors.As(err, &failed) || failed.Index != before || !strings.HasPrefix(failed.Message, "WRONGTYPE") {
			t.Errorf("%d commands before the one that fails: %v", before, err)
		}
	}
	mustDo(t, f, 41, incr())
	p.loseNext(func() { fails(other, 2); mustDo(t, other, 41, incr()); fails(other, 3) })
	fails(f, 1)
	holds(t, direct, "8")
	if p.bitten() != 1 {
		t.Errorf("%d answers were lost", p.bitten())
	}
	for i := range 40 {
		fails(f, i%3)
	}
	key := redisfence.DefaultPrefix + redisfence.Tag(resource) + resource
	kept, err := direct.HGet(background(t), key, "failed").Result()
	if n := strings.Count(kept, "\n"); err != nil || n != 16 {
		t.Errorf("%d failures are kept, %v", n, err)
	}
}

// A user who may not do all that the fence asks for writes nothing, and no repetition takes that for a success.
func TestMissingRights(t *testing.T) {
	for _, command := range []string{"hmget", "exists", "persist", "hset"} {
		p, f, direct := lossy(t, 4)
		must(t, direct.Do(background(t), "ACL", "SETUSER", "default", "-"+command).Err())
		_, err := f.Do(under(t, 42), resource, set("x"))
		var refused *redisfence.ServerError
		if !errors.As(err, &refused) || errors.Is(err, fence.ErrUnknownOutcome) || errors.Is(err, redisfence.ErrDamaged) {
			t.Errorf("without %s: %v", command, err)
		}
		p.loseNext(nil)
		if _, err := f.Do(under(t, 42), resource, set("x")); !errors.As(err, &refused) || !errors.Is(err, fence.ErrUnknownOutcome) {
			t.Errorf("without %s, and with a lost answer: %v", command, err)
		}
		if p.bitten() != 1 {
			t.Errorf("%d answers were lost", p.bitten())
		}
		holds(t, direct, "")
		if command == "hmget" {
			if _, err := f.Last(background(t), resource); !errors.As(err, &refused) || errors.Is(err, redisfence.ErrDamaged) {
				t.Errorf("to a reader: %v", err)
			}
			continue
		}
		if last, err := f.Last(background(t), resource); err != nil || last.Token != 1 {
			t.Errorf("without %s it keeps %v, %v", command, last, err)
		}
	}
}

// The rights that the package comment names are enough.
func TestLeastRights(t *testing.T) {
	c, _ := start(t)
	must(t, c.Do(background(t), "ACL", "SETUSER", "writer", "on", ">secret", "~"+redisfence.DefaultPrefix+"*", "~"+string(data(resource)),
		"+evalsha", "+eval", "+hmget", "+exists", "+persist", "+hset", "+wait", "+set").Err())
	writer := redis.NewClient(&redis.Options{Addr: c.Options().Addr, Username: "writer", Password: "secret", DisableIdentity: true})
	t.Cleanup(func() { _ = writer.Close() })
	f := newFence(t, writer, redisfence.Config{})
	mustDo(t, f, 41, set("x"))
	must(t, f.Claim(under(t, 42), resource))
	if last, err := f.Last(background(t), resource); err != nil || last.Token != 42 {
		t.Errorf("%v, %v", last, err)
	}
	if _, err := f.Do(under(t, 41), resource, set("stale")); !errors.Is(err, fence.ErrStaleToken) {
		t.Error(err)
	}
	waiting := newFence(t, writer, redisfence.Config{Replicas: 1, ReplicaTimeout: time.Millisecond})
	if _, err := waiting.Do(under(t, 42), resource, set("y")); !errors.Is(err, redisfence.ErrUnreplicated) {
		t.Error(err)
	}
	holds(t, c, "y")
}

// failing is a client whose first calls fail, without having sent anything, as it says or as it does not.
type failing struct {
	redisfence.Client
	errs []error
	then func()
}

func (f *failing) Do(ctx context.Context, key string, commands ...[]any) ([]any, error) {
	if len(f.errs) == 0 {
		return f.Client.Do(ctx, key, commands...)
	}
	err := f.errs[0]
	if f.errs = f.errs[1:]; len(f.errs) == 0 && f.then != nil {
		f.then()
	}
	return nil, err
}

// What was certainly not sent leaves no doubt: it is sent again, and a refusal is one. What may have been does.
func TestUnsent(t *testing.T) {
	c, direct := start(t)
	mustDo(t, direct, 41, incr())
	wire := errors.New("connection reset")
	for name, test := range map[string]struct {
		errs     []error
		token    fence.Token
		is       error
		unknown  bool
		attempts int
	}{
		"accepted":              {[]error{redisfence.ErrUnsent, redisfence.ErrUnsent}, 41, nil, false, 3},
		"refused":               {[]error{redisfence.ErrUnsent, redisfence.ErrUnsent}, 40, fence.ErrStaleToken, false, 3},
		"never":                 {[]error{redisfence.ErrUnsent, redisfence.ErrUnsent}, 41, redisfence.ErrUnsent, false, 2},
		"lost, then accepted":   {[]error{wire, redisfence.ErrUnsent}, 41, nil, false, 3},
		"lost, then refused":    {[]error{redisfence.ErrUnsent, wire}, 40, fence.ErrStaleToken, true, 3},
		"lost, then never sent": {[]error{wire, redisfence.ErrUnsent}, 41, redisfence.ErrUnsent, true, 2},
		"lost for ever":         {[]error{wire, wire}, 41, wire, true, 2},
	} {
		f, err := redisfence.New(&failing{Client: goredis.New(c), errs: test.errs}, redisfence.Config{Attempts: test.attempts})
		must(t, err)
		_, err = f.Do(under(t, test.token), resource, incr())
		if !errors.Is(err, test.is) || errors.Is(err, fence.ErrUnknownOutcome) != test.unknown || test.unknown && !errors.Is(err, wire) {
			t.Errorf("%s: %v", name, err)
		}
	}
	holds(t, c, "3")
}

// A server that is down gets nothing, and the client says so.
func TestServerIsDown(t *testing.T) {
	s := servertest.Redis(t)
	f := newFence(t, dial(t, s.Addr, -1), redisfence.Config{Attempts: 2})
	must(t, f.Claim(under(t, 41), resource))
	s.Kill()
	if _, err := f.Do(under(t, 41), resource, incr()); !errors.Is(err, redisfence.ErrUnsent) && !errors.Is(err, fence.ErrUnknownOutcome) {
		t.Errorf("over a connection that was there: %v", err)
	}
	if _, err := f.Do(under(t, 41), resource, incr()); !errors.Is(err, redisfence.ErrUnsent) || errors.Is(err, fence.ErrUnknownOutcome) {
		t.Errorf("over a new one: %v", err)
	}
}

// A server that may not write yet is asked again: one that is being promoted, for one.
func TestPromotedMeanwhile(t *testing.T) {
	primary, _ := start(t)
	c, _ := start(t)
	host, port := split(t, primary.Options().Addr)
	must(t, c.ReplicaOf(background(t), host, port).Err())
	promoting := &promoting{Client: goredis.New(c), promote: func() { must(t, c.ReplicaOf(background(t), "NO", "ONE").Err()) }}
	f, err := redisfence.New(promoting, redisfence.Config{})
	must(t, err)
	mustDo(t, f, 41, set("x"))
	holds(t, c, "x")
	if promoting.refused == "" {
		t.Error("the replica did not refuse: this test shows nothing")
	}
}

// promoting makes a replica a primary after its first answer.
type promoting struct {
	redisfence.Client
	promote func()
	refused string
}

func (p *promoting) Do(ctx context.Context, key string, commands ...[]any) ([]any, error) {
	replies, err := p.Client.Do(ctx, key, commands...)
	if err == nil && p.refused == "" {
		if refused, ok := replies[0].(*redisfence.ServerError); ok && !strings.HasPrefix(refused.Message, "NOSCRIPT") {
			p.refused = refused.Message
			p.promote()
		}
	}
	return replies, err
}

// A repetition that finds its write done waits for the replicas too, on its other connection.
func TestRepetitionWaitsForReplicas(t *testing.T) {
	g := startGroup(t, 1)
	p := newProxy(t, g.primary.Addr)
	cfg := redisfence.Config{Replicas: 1, ReplicaTimeout: 20 * time.Second}
	mustDo(t, newFence(t, g.client, cfg), 41, set("old"))
	g.inSync(t)
	g.lines[0].cut()
	cfg.ReplicaTimeout = 100 * time.Millisecond
	f := newFence(t, dial(t, p.addr, -1), cfg)
	p.loseNext(nil)
	if _, err := f.Do(under(t, 42), resource, set("new")); !errors.Is(err, redisfence.ErrUnreplicated) {
		t.Errorf("%v", err)
	}
	if p.bitten() != 1 {
		t.Errorf("%d answers were lost", p.bitten())
	}
	holds(t, g.client, "new")
}

// Writers add words through a line that loses answers; each word is there once if its write was acknowledged, at most once if that
// is unknown, and not at all if it was refused.
func TestExactlyOnce(t *testing.T) {
	const writers, each = 4, 150
	p, f, direct := lossy(t, 4)
	list := redisfence.Key(redisfence.Tag(resource) + ":list")
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(7, 5))
	result := map[string]error{}
	top := 1
	pick := func() (token fence.Token, lose, hasty bool) {
		mu.Lock()
		defer mu.Unlock()
		top += random.IntN(8) / 7
		return fence.Token(max(1, top-random.IntN(2))), random.IntN(6) == 0, random.IntN(12) == 0
	}
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for n := range each {
				token, lose, hasty := pick()
				if lose {
					p.loseNext(nil)
				}
				ctx, cancel := context.WithTimeout(under(t, token), time.Minute)
				if hasty {
					cancel()
					ctx, cancel = context.WithTimeout(under(t, token), 2*time.Millisecond)
				}
				word := fmt.Sprintf("%d.%d", w, n)
				_, err := f.Do(ctx, resource, redisfence.Cmd("RPUSH", list, word))
				cancel()
				mu.Lock()
				result[word] = err
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	count := map[string]int{}
	for _, word := range direct.LRange(background(t), string(list), 0, -1).Val() {
		count[word]++
	}
	outcomes := map[string]int{}
	for word, err := range result {
		switch n := count[word]; {
		case err == nil && n == 1:
			outcomes["acknowledged"]++
		case errors.Is(err, fence.ErrUnknownOutcome) && n <= 1:
			outcomes[fmt.Sprintf("unknown, %d", n)]++
		case err != nil && !errors.Is(err, fence.ErrUnknownOutcome) && n == 0:
			outcomes["refused"]++
		default:
			t.Errorf("%q is there %d times: %v", word, n, err)
		}
	}
	if p.bitten() < 20 || outcomes["acknowledged"] == 0 || outcomes["refused"] == 0 || outcomes["unknown, 1"] == 0 {
		t.Errorf("%d answers were lost, %v", p.bitten(), outcomes)
	}
	t.Logf("%d answers were lost, %v", p.bitten(), outcomes)
}
