//go:build unix

package redisfence_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/fence/fencetest"
	"github.com/quorumlock/quorumlock/fence/redisfence"
)

// backend is the fenced server as the suite sees it, with keys of another name for the control.
type backend struct {
	fenced *redisfence.Fence
	client redis.Cmdable
}

var _ fencetest.Backend = (*backend)(nil)

func (b *backend) Write(ctx context.Context, resource, value string) error {
	_, err := b.fenced.Do(ctx, resource, redisfence.Cmd("SET", data(resource), value))
	return err
}

func (b *backend) Claim(ctx context.Context, resource string) error {
	return b.fenced.Claim(ctx, resource)
}

func (b *backend) Read(ctx context.Context, resource string) (string, error) {
	return b.get(ctx, string(data(resource)))
}

func (b *backend) WriteUnfenced(ctx context.Context, resource, value string) error {
	return b.client.Set(ctx, "bare:"+resource, value, 0).Err()
}

func (b *backend) ReadUnfenced(ctx context.Context, resource string) (string, error) {
	return b.get(ctx, "bare:"+resource)
}

func (b *backend) get(ctx context.Context, key string) (string, error) {
	value, err := b.client.Get(ctx, key).Result()
	if errors.Is(err, redis.Nil) {
		return "", nil
	}
	return value, err
}

func TestConformance(t *testing.T) {
	c, f := start(t)
	fencetest.Run(t, func(*testing.T) fencetest.Backend { return &backend{f, c} })
}

func TestConformanceOfCluster(t *testing.T) {
	c, f := startCluster(t)
	fencetest.Run(t, func(*testing.T) fencetest.Backend { return &backend{f, c} })
}

func TestStaleHolders(t *testing.T) {
	c, f := start(t)
	fencetest.Stale(t, &backend{f, c}, fencetest.Successions(t))
}

// The script judges in Lua what fence.Judge judges in Go. They must agree on every pair of grants, to the last digit of a token.
func TestScriptFollowsTheRule(t *testing.T) {
	const resources, steps = 60, 40
	c, f := start(t)
	ctx := background(t)
	random := rand.New(rand.NewPCG(1, 5))
	tokens := []fence.Token{1, 2, 9, 10, 11, 99, 100, 999_999_999, 1_000_000_000, 1_000_000_001,
		9_999_999_999, 10_000_000_000, fence.MaxToken - 1, fence.MaxToken}
	kept := []fence.Token{fence.MaxToken + 1, fence.MaxToken + 2, 1<<62 - 1, 1 << 62, 1<<63 - 2, 1<<63 - 1}
	pick := func(list ...string) string { return list[random.IntN(len(list))] }
	refused := 0
	for range resources {
		name, last := pick("r", "{r}", "r}")+fence.Token(random.Int64()).String(), fence.Grant{}
		for step := range steps {
			if step > steps-5 && last.Token != 0 { // above what is accepted, and read all the same
				last.Token = kept[random.IntN(len(kept))]
				must(t, c.HSet(ctx, redisfence.DefaultPrefix+redisfence.Tag(name)+name, "token", last.Token.String()).Err())
			}
			// Most steps choose among the lower tokens still, so that the highest is not reached at once.
			token := tokens[min(random.IntN(len(tokens)), random.IntN(len(tokens)))]
			g := fence.Grant{Cluster: pick("c", "c", "d"), Lock: pick("l", "l", "l", "m"), Token: token}
			want := fence.Judge(name, last, g)
			err := f.Claim(fence.NewContext(ctx, g), name)
			if !same(err, want) {
				t.Fatalf("%v after %v: %v, want %v", g, last, err, want)
			}
			if want == nil {
				last = g
			} else {
				refused++
			}
			if kept, err := f.Last(ctx, name); err != nil || kept != last {
				t.Fatalf("it keeps %v, %v; want %v", kept, err, last)
			}
		}
	}
	if refused < resources || refused > resources*(steps-1) {
		t.Errorf("%d of %d were refused", refused, resources*steps)
	}
}

// same tells whether two refusals say the same.
func same(a, b error) bool {
	if a == nil || b == nil {
		return a == b
	}
	alike := func(kind error) bool { return errors.Is(a, kind) == errors.Is(b, kind) }
	return a.Error() == b.Error() && alike(fence.ErrStaleToken) && alike(fence.ErrWrongLock)
}
