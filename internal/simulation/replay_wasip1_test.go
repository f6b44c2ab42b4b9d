package simulation_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/simulation"
	"github.com/quorumlock/quorumlock/quorumlocktest"
	"github.com/quorumlock/quorumlock/transport"
)

// TestReplay is the guest's half of the exact replay: it plays the one schedule and prints the hash of what happened.
//
// It always prints what the nodes log, wanted or not: a run with logs is another run than one without, since Go's collector and what is random in
// its runtime follow what is allocated. So the very run that was judged can be read.
func TestReplay(t *testing.T) {
	log := hclog.New(&hclog.LoggerOptions{Output: os.Stdout, Level: hclog.Debug, TimeFormat: "15:04:05.000000"})
	o := simulation.Outcome{Seed: *replay}
	defer func() { fmt.Printf("%s%s\n", eventsPrefix, o.Events) }()
	simulation.Run(t, &o, *length, quorumlocktest.Logger(log))
}

// TestOpenUnsupported: without sockets and files no node can serve outside simulation, and Open says what is missing. A transport of the caller's own
// does not help, since the rest is missing too.
func TestOpenUnsupported(t *testing.T) {
	for _, k := range []struct {
		own     bool
		dir     string
		missing string
	}{
		{missing: "tcp transport: this platform has no sockets"},
		{dir: "data", missing: "tcp transport: this platform has no sockets"},
		{own: true, missing: "memberlist: this platform has no sockets"},
		{own: true, dir: "data", missing: "data directory data: this platform has no files that can be locked"},
	} {
		cfg := quorumlock.Config{Cluster: "test", Addr: "127.0.0.1:7000", Expect: 1, Dir: k.dir}
		if k.own {
			cfg.Transport = transport.NewMemory(1).Host("127.0.0.1")
		}
		node, err := quorumlock.Open(context.Background(), cfg)
		if err == nil {
			_ = node.Close()
		}
		if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), k.missing) {
			t.Errorf("Open gave %v, want %q", err, k.missing)
		}
	}
}
