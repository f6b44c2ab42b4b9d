package scenario_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/clock"
	"github.com/quorumlock/quorumlock/internal/sim"
	"github.com/quorumlock/quorumlock/internal/store"
	"github.com/quorumlock/quorumlock/transport"
)

// Each write of a recovery fails in turn. The disk then holds the former member, which can be recovered after all, or the new
// one.
func TestRecoverFailsAtAnyWrite(t *testing.T) {
	broken := errors.New("broken")
	for nth := 1; nth <= 8; nth++ {
		t.Run(fmt.Sprint(nth), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				disk, last := recoverable(t)
				cfg := aloneOn(disk)
				was, err := quorumlock.Recover(context.Background(), cfg, quorumlock.RecoverOptions{DryRun: true})
				if err != nil {
					t.Fatal(err)
				}
				disk.FailWrite(nth, broken)
				r, err := quorumlock.Recover(context.Background(), cfg, quorumlock.RecoverOptions{GiveUp: was.OldClusterID})
				disk.FailWrite(0, nil)
				if failed := disk.Refused() > 0; failed != errors.Is(err, broken) || (nth == 1) && !failed || (nth == 8) && failed {
					t.Fatalf("failed %v: %v", failed, err)
				}
				clockPassesTokens()
				again, dryErr := quorumlock.Recover(context.Background(), cfg, quorumlock.RecoverOptions{DryRun: true})
				if dryErr != nil {
					t.Fatal(dryErr)
				}
				if err != nil {
					if again.OldClusterID != was.OldClusterID || again.OldServerID != was.OldServerID || again.Index != was.Index || again.Holds != was.Holds {
						t.Fatalf("after %v: %+v, was %+v", err, again, was)
					}
					r, err = quorumlock.Recover(context.Background(), cfg, quorumlock.RecoverOptions{GiveUp: was.OldClusterID})
					if err != nil {
						t.Fatal(err)
					}
				} else if again.OldClusterID != r.ClusterID || again.OldServerID != r.ServerID {
					t.Fatalf("%+v after %+v", again, r)
				}
				start := time.Now()
				n, err := quorumlock.Open(context.Background(), aloneOn(disk))
				if err != nil {
					t.Fatal(err)
				}
				defer n.Close()
				readyIn(t, n, restartBound)
				if h := lockAfter(t, n, "k", start, r.Quarantine); h.Token() <= last {
					t.Errorf("token %v after %v", h.Token(), last)
				}
			})
		})
	}
}

// What cannot be recovered is refused with an error that says why, and stays as it is.
func TestRecoverRefuses(t *testing.T) {
	use := func(disk *store.Disk, change func(*quorumlock.Config, *quorumlock.RecoverOptions)) error {
		cfg, opt := aloneOn(disk), quorumlock.RecoverOptions{DryRun: true}
		if change != nil {
			change(&cfg, &opt)
		}
		r, err := quorumlock.Recover(context.Background(), cfg, opt)
		if (r == nil) == (err == nil) {
			return fmt.Errorf("(%v, %v)", r, err)
		}
		return err
	}
	newer := func(s *store.Store, end *raft.Log, content []byte) { keepSnapshot(t, s, end, raised(t, content)) }
	for name, test := range map[string]struct {
		spoil  func(t *testing.T, disk *store.Disk)
		change func(*quorumlock.Config, *quorumlock.RecoverOptions)
		field  string
		want   error
	}{
		"without a word on what is given up": {change: func(_ *quorumlock.Config, o *quorumlock.RecoverOptions) { o.DryRun = false }, field: "RecoverOptions.GiveUp"},
		"another cluster is given up": {
			change: func(_ *quorumlock.Config, o *quorumlock.RecoverOptions) { o.DryRun, o.GiveUp = false, "other" }, field: "RecoverOptions.GiveUp",
		},
		"another cluster is pinned": {change: func(c *quorumlock.Config, _ *quorumlock.RecoverOptions) { c.ClusterID, c.Expect = "other", 0 }, field: "Config.ClusterID"},
		"as a client": {change: func(c *quorumlock.Config, _ *quorumlock.RecoverOptions) {
			c.Role, c.Expect, c.Join = quorumlock.RoleClient, 0, []string{"host:7001"}
		}, field: "Config.Role"},
		"another name":            {change: func(c *quorumlock.Config, _ *quorumlock.RecoverOptions) { c.Cluster = "other" }, field: "Config.Dir"},
		"negative floor":          {change: func(_ *quorumlock.Config, o *quorumlock.RecoverOptions) { o.TokenFloor = -1 }, field: "RecoverOptions.TokenFloor"},
		"floor beyond all clocks": {change: func(_ *quorumlock.Config, o *quorumlock.RecoverOptions) { o.TokenFloor = 1<<52 + 1 }, field: "RecoverOptions.TokenFloor"},
		"bad configuration":       {change: func(c *quorumlock.Config, _ *quorumlock.RecoverOptions) { c.Voters = 2 }, field: "Config.Voters"},
		"damaged entry": {spoil: func(t *testing.T, d *store.Disk) {
			if !d.Corrupt(5) {
				t.Fatal("no such entry")
			}
		}, field: "Config.Dir"},
		"condemned": {spoil: func(t *testing.T, d *store.Disk) {
			onDisk(t, d, func(s *store.Store, _ *raft.Log) {
				if err := s.Condemn("differs"); err != nil {
					t.Fatal(err)
				}
			})
		}, field: "Config.Dir", want: quorumlock.ErrDiverged},
		"newer snapshot": {spoil: func(t *testing.T, d *store.Disk) {
			content := snapshotOf(t, d)
			onDisk(t, d, func(s *store.Store, end *raft.Log) { newer(s, end, content) })
		}, want: quorumlock.ErrLevel},
		"torn snapshot": {spoil: func(t *testing.T, d *store.Disk) {
			content := snapshotOf(t, d)
			onDisk(t, d, func(s *store.Store, end *raft.Log) { keepSnapshot(t, s, end, content[:len(content)/2]) })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				disk, _ := recoverable(t)
				if test.spoil != nil {
					test.spoil(t, disk)
				}
				for range 2 {
					err := use(disk, test.change)
					var field *quorumlock.FieldError
					if err == nil || test.field != "" && (!errors.As(err, &field) || field.Field != test.field) || test.want != nil && !errors.Is(err, test.want) {
						t.Errorf("%v, want field %q, %v", err, test.field, test.want)
					}
				}
				if test.spoil == nil {
					stillThere(t, disk)
				}
			})
		})
	}
	for name, disk := range map[string]*store.Disk{"empty disk": store.NewDisk(), "nothing on disk": nil} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var field *quorumlock.FieldError
				if err := use(disk, nil); !errors.As(err, &field) || field.Field != "Config.Dir" {
					t.Errorf("%v", err)
				}
			})
		})
	}
}

// stillThere opens the node as if nothing had been tried.
func stillThere(t *testing.T, disk *store.Disk) {
	t.Helper()
	n, err := quorumlock.Open(context.Background(), aloneOn(disk))
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	unlock(t, lockIn(t, n, "k", grantBound))
}

// The same in a directory of files. A node that runs in it is found, and a directory that is not there is not made.
func TestRecoverADirectory(t *testing.T) {
	bubble(t, func(t *testing.T) {
		dir := t.TempDir()
		config := func(dir string) quorumlock.Config {
			cfg := quorumlock.Config{
				Cluster: "test", Name: "alone", Addr: "host:7000", Dir: dir, Expect: 1, AllowPlaintext: true, Transport: transport.NewMemory(1).Host("host"),
			}
			sim.Attach(&cfg, &sim.Env{Clock: clock.NewFake(), MemoryGossip: true})
			return cfg
		}
		n, err := quorumlock.Open(context.Background(), config(dir))
		if err != nil {
			t.Fatal(err)
		}
		defer n.Close()
		readyIn(t, n, restartBound)
		last := grantMany(t, n, "k", 3)
		id := n.ClusterID()
		clockPassesTokens()
		var field *quorumlock.FieldError
		if _, err := quorumlock.Recover(context.Background(), config(dir), quorumlock.RecoverOptions{GiveUp: id}); !errors.As(err, &field) || field.Field != "Config.Dir" {
			t.Fatalf("while the node runs: %v", err)
		}
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := quorumlock.Recover(context.Background(), config(dir+"/absent"), quorumlock.RecoverOptions{DryRun: true}); !errors.As(err, &field) || field.Field != "Config.Dir" {
			t.Errorf("no directory: %v", err)
		}
		r, err := quorumlock.Recover(context.Background(), config(dir), quorumlock.RecoverOptions{GiveUp: id})
		if err != nil {
			t.Fatal(err)
		}
		for _, length := range []time.Duration{r.Quarantine, 0} { // the second start finds that it is over for good
			start := time.Now()
			n, err := quorumlock.Open(context.Background(), config(dir))
			if err != nil {
				t.Fatal(err)
			}
			defer n.Close()
			readyIn(t, n, restartBound)
			if n.ClusterID() != r.ClusterID || n.ID() != r.ServerID {
				t.Errorf("cluster %s, server %s; %+v", n.ClusterID(), n.ID(), r)
			}
			if length > 0 {
				inQuarantine(t, n, "k")
			}
			next := lockAfter(t, n, "k", start, length)
			if next.Token() <= last {
				t.Errorf("token %v after %v", next.Token(), last)
			}
			last = next.Token()
			unlock(t, next)
			if err := n.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// Who waits in a quarantine is let go when his patience, his session or his node ends.
func TestWaitInAQuarantineCanBeEnded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk, _ := recoverable(t)
		was, err := quorumlock.Recover(context.Background(), aloneOn(disk), quorumlock.RecoverOptions{DryRun: true})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := quorumlock.Recover(context.Background(), aloneOn(disk), quorumlock.RecoverOptions{GiveUp: was.OldClusterID}); err != nil {
			t.Fatal(err)
		}
		n, err := quorumlock.Open(context.Background(), aloneOn(disk))
		if err != nil {
			t.Fatal(err)
		}
		defer n.Close()
		readyIn(t, n, restartBound)
		s := openSession(t, n)
		cancelled := wait(context.Background(), t, n, "k")
		closed := wait(context.Background(), t, s, "k")
		last := wait(context.Background(), t, n, "k2")
		time.Sleep(5300 * time.Millisecond) // between two attempts
		cancelled.cancel()
		cancelled.failed(10*time.Millisecond, context.Canceled)
		if !errors.Is(cancelled.err, quorumlock.ErrQuarantine) {
			t.Errorf("cancelled: %v", cancelled.err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		closed.failed(10*time.Millisecond, quorumlock.ErrClosed)
		endsIn(t, "close", closeBound, func() { _ = n.Close() })
		last.failed(10*time.Millisecond, quorumlock.ErrClosed)
	})
}
