package conformance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/quorumlock/quorumlock/fence/s3fence"
)

// A proxy that drops a header makes a store that accepts everything of one that does not. Open finds that out, and says which.
func TestStoreThatIgnoresConditions(t *testing.T) {
	s := inMemory(t)
	for header, says := range map[string]string{"If-Match": "replaces an object", "If-None-Match": "creates an object"} {
		p := newProxy(t, s.addr)
		p.strip.Store(header)
		_, err := s3fence.Open(context.Background(), store(t, p.addr, 1), s3fence.Config{})
		var bad *s3fence.UnconditionalError
		if !errors.Is(err, s3fence.ErrUnconditional) || !errors.As(err, &bad) || !strings.Contains(bad.Problem, says) {
			t.Errorf("without %s: %v", header, err)
		}
		if p.bitten.Load() == 0 {
			t.Errorf("no %s was dropped", header)
		}
	}
}

// broken is a store with one of the faults that stores have.
type broken struct {
	s3fence.Store
	replacesMissing, forgetsETags, makesRefused, twoSteps bool

	turn sync.Mutex
}

func (b *broken) Get(ctx context.Context, key string, limit int64) ([]byte, string, error) {
	body, etag, err := b.Store.Get(ctx, key, limit)
	if b.forgetsETags {
		etag = `"other"`
	}
	return body, etag, err
}

func (b *broken) Replace(ctx context.Context, key, etag string, body []byte) error {
	_, now, err := b.Store.Get(ctx, key, 1<<20)
	switch {
	case b.replacesMissing && errors.Is(err, s3fence.ErrNotFound):
		return b.Create(ctx, key, body)
	case b.twoSteps && err == nil && now == etag: // judges here and writes there
		b.turn.Lock()
		defer b.turn.Unlock()
		return b.overwrite(ctx, key, body)
	}
	err = b.Store.Replace(ctx, key, etag, body)
	if b.makesRefused && errors.Is(err, s3fence.ErrConflict) {
		return errors.Join(err, b.overwrite(ctx, key, body))
	}
	return err
}

func (b *broken) overwrite(ctx context.Context, key string, body []byte) error {
	_, now, err := b.Store.Get(ctx, key, 1<<20)
	if err != nil {
		return err
	}
	return b.Store.Replace(ctx, key, now, body)
}

func TestProbeOfBrokenStores(t *testing.T) {
	good := store(t, inMemory(t).addr, 1)
	for says, s := range map[string]s3fence.Store{
		"that is not there":   &broken{Store: good, replacesMissing: true},
		"has just given":      &broken{Store: good, forgetsETags: true},
		"all the same":        &broken{Store: good, makesRefused: true},
		"at the same time":    &broken{Store: good, twoSteps: true},
		"(If-Match is ignore": &broken{Store: sloppy{good}, twoSteps: true},
	} {
		_, err := s3fence.Open(context.Background(), s, s3fence.Config{})
		if !errors.Is(err, s3fence.ErrUnconditional) || !strings.Contains(fmt.Sprint(err), says) {
			t.Errorf("%q: %v", says, err)
		}
	}
}

// sloppy takes every ETag for the present one.
type sloppy struct{ s3fence.Store }

func (s sloppy) Replace(ctx context.Context, key, _ string, body []byte) error {
	_, now, err := s.Get(ctx, key, 1<<20)
	if err != nil {
		return s3fence.ErrConflict
	}
	return s.Store.Replace(ctx, key, now, body)
}

// What the tests stand on: of many writers with one ETag the server lets one win, every time.
func TestServerJudgesAndWritesInOneStep(t *testing.T) {
	oneWins(t, store(t, inMemory(t).addr, 1), "key", 100)
}

func oneWins(t *testing.T, s s3fence.Store, key string, rounds int) {
	const writers = 8
	ctx := under(t, 1)
	etag := ""
	for round := range rounds {
		var won atomic.Int64
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				body := fmt.Appendf(nil, "%d.%d", round, w)
				write := func() error { return s.Replace(ctx, key, etag, body) }
				if etag == "" {
					write = func() error { return s.Create(ctx, key, body) }
				}
				switch err := write(); {
				case err == nil:
					won.Add(1)
				case !errors.Is(err, s3fence.ErrConflict):
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if won.Load() != 1 {
			t.Fatalf("round %d: %d writers won", round, won.Load())
		}
		var err error
		_, etag, err = s.Get(ctx, key, 1<<20)
		must(t, err)
	}
}
