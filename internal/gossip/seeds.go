package gossip

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/quorumlock/quorumlock/internal/quiet"
)

const (
	resolveEvery    = 5 * time.Second
	resolveTimeout  = 3 * time.Second
	maxAddrsPerName = 64 // addresses taken from one DNS answer
)

// seeds turns the configured names into addresses, again and again: names of pods move.
type seeds struct {
	names   []string
	resolve func(ctx context.Context, host string) ([]string, error)
	log     hclog.Logger
	lines   *quiet.Limiter
	own     string // advertised

	mu   sync.Mutex
	last map[string][]string // name -> addresses of the last good answer
}

// addresses resolves all seeds side by side. A name that fails now keeps its last good answer: an outage of the DNS must not
// hide members that are still where they were.
func (s *seeds) addresses(ctx context.Context) []string {
	var wg sync.WaitGroup
	for _, name := range s.names {
		wg.Go(func() { s.refresh(ctx, name) })
	}
	wg.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for _, name := range s.names {
		all = append(all, s.last[name]...)
	}
	slices.Sort(all)
	return s.reachable(slices.Compact(all))
}

func (s *seeds) refresh(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	addrs, err := s.lookup(ctx, name)
	if err != nil {
		if ctx.Err() != context.Canceled && s.lines.Allow("seed "+name, time.Now()) {
			s.log.Warn("can not resolve a seed; trying on", "seed", name, "error", err)
		}
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		s.last = map[string][]string{}
	}
	s.last[name] = addrs
}

func (s *seeds) lookup(ctx context.Context, name string) ([]string, error) {
	host, port, err := splitHostPort(name)
	if err != nil {
		return nil, err
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return []string{joinHostPort(ip.String(), port)}, nil
	}
	hosts, err := s.resolve(ctx, host)
	if err != nil {
		return nil, err
	}
	addrs := make([]string, 0, len(hosts))
	for _, h := range hosts[:min(len(hosts), maxAddrsPerName)] {
		addrs = append(addrs, joinHostPort(h, port))
	}
	return addrs, nil
}

func joinHostPort(host string, port uint16) string {
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}
