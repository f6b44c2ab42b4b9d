package gossip

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/quorumlock/quorumlock/internal/quiet"
)

// Seeds is the phone book of a process that nobody is told of: it takes no part in gossip, sends and receives nothing, and knows the
// addresses behind its seeds' names and those that it learned from members. Nobody is believed alive by it.
type Seeds struct {
	seeds *seeds
	stop  context.CancelFunc
	done  chan struct{}

	mu       sync.Mutex
	resolved []string
	learned  map[string]string // server id -> address
}

// SeedOptions is what Seeds needs; the fields are those of Options.
type SeedOptions struct {
	Seeds   []string
	Resolve func(ctx context.Context, host string) ([]string, error)
	Logger  hclog.Logger
}

// NewSeeds begins to resolve the seeds, and goes on until Close.
func NewSeeds(opt SeedOptions) (*Seeds, error) {
	full := Options{Seeds: opt.Seeds, Resolve: opt.Resolve, Logger: opt.Logger}.withOthers()
	for _, seed := range full.Seeds {
		if _, _, err := splitHostPort(seed); err != nil {
			return nil, fmt.Errorf("seed: %w", err)
		}
	}
	s := &Seeds{
		seeds: &seeds{names: full.Seeds, resolve: full.Resolve, log: full.Logger, lines: &quiet.Limiter{}},
		done:  make(chan struct{}), learned: map[string]string{},
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	go s.run(ctx)
	return s, nil
}

func (s *Seeds) run(ctx context.Context) {
	defer close(s.done)
	for {
		addrs := s.seeds.addresses(ctx)
		s.mu.Lock()
		s.resolved = addrs
		s.mu.Unlock()
		every := jitter(resolveEvery)
		if len(addrs) == 0 {
			every = firstRetry
		}
		timer := time.NewTimer(every)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// Addresses are those behind the seeds' names at present.
func (s *Seeds) Addresses() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.resolved...)
}

// Members lists nobody: no word of anybody's is heard.
func (s *Seeds) Members() []Member { return nil }

// Lookup gives the address that was learned last.
func (s *Seeds) Lookup(serverID string) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	addr, ok := s.learned[serverID]
	return addr, ok
}

// SetMeta has nobody to tell.
func (s *Seeds) SetMeta(Meta) error { return nil }

// Learn notes where a server is.
func (s *Seeds) Learn(serverID, addr string) {
	if serverID == "" || checkAdvertise(addr) != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.learned[serverID]; known || len(s.learned) < maxEntries {
		s.learned[serverID] = addr
	}
}

// Keep forgets all servers but these: ids are never used again, so they would pile up.
func (s *Seeds) Keep(serverIDs map[string]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.learned {
		if !serverIDs[id] {
			delete(s.learned, id)
		}
	}
}

// Leave has nobody to tell.
func (s *Seeds) Leave() error { return nil }

// Close ends the resolving and returns when its goroutine is gone.
func (s *Seeds) Close() error {
	s.stop()
	<-s.done
	return nil
}
