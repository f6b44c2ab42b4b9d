package pgtest

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/fence/pgfence"
	"github.com/quorumlock/quorumlock/internal/servers"
	"github.com/quorumlock/quorumlock/internal/servers/servertest"
)

// pair is a primary and a standby that follows it.
type pair struct {
	primary, standby *servers.PostgresServer
	*world           // on the primary; afterwards on the standby
}

// newPair has both, with A's write under token 41 on both.
func newPair(t *testing.T, driver string) *pair {
	t.Helper()
	primary := servertest.Postgres(t, "fsync=off")
	p := &pair{primary: primary, standby: servertest.Replica(t, primary, "fsync=off"), world: fill(t, driver, primary.DSN("postgres"))}
	must(t, p.tx(p.holder(41), set(41)))
	p.until(t, "SELECT count(*) = 1 AND bool_and(replay_lsn >= pg_current_wal_lsn()) FROM pg_stat_replication")
	return p
}

// synchronous makes commits of the primary wait for the standby.
func (p *pair) synchronous(t *testing.T) {
	t.Helper()
	exec(t, p.DB, "ALTER SYSTEM SET synchronous_standby_names = '*'")
	exec(t, p.DB, "SELECT pg_reload_conf()")
	p.until(t, "SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'")
}

// failOver loses the primary and promotes the standby. One that was stopped starts when the primary is gone, and so cannot
// catch up.
func (p *pair) failOver(t *testing.T) {
	t.Helper()
	p.primary.Kill()
	select {
	case <-p.standby.Done():
		must(t, p.standby.Restart(p.ctx))
	default:
	}
	p.dsn = p.standby.DSN("postgres")
	p.DB = open(t, p.driver, p.dsn)
	exec(t, p.DB, "SELECT pg_promote()")
}

// The standby has fallen behind when the primary is lost, and with it the claim of B, which had been acknowledged: A, stale,
// gets in.
func TestPitfallAsynchronousFailover(t *testing.T) {
	p := newPair(t, "pgx")
	p.standby.Stop()
	must(t, p.tx(p.holder(42), set(42)))
	p.failOver(t)
	p.has(t, 41)                         // B's write is lost
	must(t, p.tx(p.holder(41), set(41))) // and its token
}

// With synchronous replication what was acknowledged is there.
func TestSynchronousFailover(t *testing.T) {
	p := newPair(t, "pgx")
	p.synchronous(t)
	must(t, p.tx(p.holder(42), set(42)))
	p.failOver(t)
	start(func() error { return p.tx(p.holder(41), set(41)) }).end(t, fence.ErrStaleToken)
	p.has(t, 42)
}

// The commit waits for a standby that is gone, until its context ends. It has taken effect on the primary only, so it must
// not look like a success; PostgreSQL says COMMIT when the wait is cancelled, and a driver may believe it.
func TestSynchronousWaitCancelled(t *testing.T) {
	for driver := range drivers {
		t.Run(driver, func(t *testing.T) {
			p := newPair(t, driver)
			p.synchronous(t)
			p.standby.Stop()
			ctx, cancel := context.WithCancel(p.holder(42))
			b := start(func() error { return p.tx(ctx, set(42)) })
			p.until(t, "SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
			cancel()
			err := <-b.err
			var unknown *pgfence.UnknownOutcomeError
			if !errors.As(err, &unknown) || !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
			p.failOver(t)
			p.has(t, 41)
			must(t, p.tx(p.holder(41), set(41))) // nobody was told of 42
		})
	}
}

// A server that stands still answers nobody. With pgx a call ends with its context all the same; lib/pq waits for the answer to its own request to cancel, so the
// call ends when the server goes on, or when the connection is given up. Nothing is committed either way.
func TestFrozenServer(t *testing.T) {
	for driver := range drivers {
		t.Run(driver, func(t *testing.T) {
			server := servertest.Postgres(t, "fsync=off")
			w := fill(t, driver, server.DSN("postgres"))
			ctx, cancel := context.WithCancel(w.holder(41))
			must(t, w.tx(ctx, nothing)) // connects
			frozen := make(chan error, 1)
			call := start(func() error {
				return w.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
					frozen <- server.Freeze()
					return set(41)(ctx, tx)
				})
			})
			must(t, <-frozen)
			cancel()
			if driver == "pgx" {
				call.end(t, context.Canceled)
				must(t, server.Thaw())
			} else {
				must(t, server.Thaw())
				call.end(t, context.Canceled)
			}
			must(t, w.tx(w.holder(41), nothing)) // waits for the other transaction to end
			w.has(t, 100)
		})
	}
}
