package pgtest

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"testing"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/fence/pgfence"
	"github.com/quorumlock/quorumlock/internal/servers/servertest"
)

// everyWay runs a test with each driver at each level, straight and through a pooler in transaction mode.
func everyWay(t *testing.T, test func(t *testing.T, w *world)) {
	t.Run("straight", func(t *testing.T) { each(t, test) })
	t.Run("pooler", func(t *testing.T) {
		servertest.Need(t, sharedErr)
		pooler := servertest.PgBouncer(t, shared, "default_pool_size = 8")
		each(t, func(t *testing.T, w *world) {
			dsn := pooler.DSN(w.name(t))
			if w.driver == "pgx" {
				dsn += "&default_query_exec_mode=exec" // its prepared statements would belong to connections that change
			}
			w.DB.Close()
			w.DB = open(t, w.driver, dsn)
			test(t, w)
		})
	})
}

// pending is a call under way.
type pending struct{ err chan error }

func start(f func() error) pending {
	p := pending{make(chan error, 1)}
	go func() { p.err <- f() }()
	return p
}

func (p pending) end(t *testing.T, want error) {
	t.Helper()
	if err := <-p.err; !errors.Is(err, want) {
		t.Fatalf("got %v, want %v", err, want)
	}
}

// S35: A is stopped before its write; B takes over and writes; A goes on.
func TestS35StoppedBeforeTheWrite(t *testing.T) {
	everyWay(t, func(t *testing.T, w *world) {
		must(t, w.tx(w.holder(41), set(41)))
		must(t, w.tx(w.holder(42), set(42)))
		start(func() error { return w.tx(w.holder(41), set(1)) }).end(t, fence.ErrStaleToken)
		w.has(t, 42)
	})
}

// S35: the write of A is queued already, behind B's.
func TestS35QueuedWrite(t *testing.T) {
	everyWay(t, func(t *testing.T, w *world) {
		must(t, w.tx(w.holder(41), set(41)))
		var late pending
		must(t, w.tx(w.holder(42), func(ctx context.Context, tx *sql.Tx) error {
			late = start(func() error { return w.tx(w.holder(41), set(1)) })
			w.blocked(t, 1)
			return set(42)(ctx, tx)
		}))
		late.end(t, fence.ErrStaleToken)
		w.has(t, 42)
	})
}

// S38: A passes the check and stands still in its transaction. B cannot pass before it has ended, so it writes last, and
// after that A is refused.
func TestS38BlockedAfterTheCheck(t *testing.T) {
	everyWay(t, func(t *testing.T, w *world) {
		var next pending
		must(t, w.tx(w.holder(41), func(ctx context.Context, tx *sql.Tx) error {
			next = start(func() error {
				return w.tx(w.holder(42), func(ctx context.Context, tx *sql.Tx) error {
					_, err := tx.ExecContext(ctx, "UPDATE account SET balance = balance * 10 WHERE id = 'a'")
					return err
				})
			})
			w.blocked(t, 1)
			return set(41)(ctx, tx)
		}))
		next.end(t, nil)
		w.has(t, 410) // B saw what A wrote
		start(func() error { return w.tx(w.holder(41), set(1)) }).end(t, fence.ErrStaleToken)
		w.has(t, 410)
	})
}

// S38: A has passed the check and has been blocked elsewhere, by a row that a third one holds; its connection is ended, B
// advances and writes, A goes on.
func TestS38EndedWhileBlocked(t *testing.T) {
	everyWay(t, func(t *testing.T, w *world) {
		third, err := w.BeginTx(w.ctx, nil)
		must(t, err)
		defer third.Rollback()
		_, err = third.Exec("SELECT * FROM account WHERE id = 'a' FOR UPDATE")
		must(t, err)
		a := start(func() error { return w.tx(w.holder(41), set(41)) })
		w.blocked(t, 1)
		b := start(func() error { return w.tx(w.holder(42), set(42)) })
		w.blocked(t, 2) // on A's claim
		exec(t, w.DB, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE 'UPDATE account%'`)
		if err := <-a.err; err == nil {
			t.Error("A's write had no error")
		}
		must(t, third.Rollback())
		b.end(t, nil)
		start(func() error { return w.tx(w.holder(41), set(1)) }).end(t, fence.ErrStaleToken)
		w.has(t, 42)
	})
}

// S38 with a snapshot of A from before B came: A claims late in its transaction. Under READ COMMITTED the claim is refused;
// with the old snapshot it fails, and is refused when tried again.
func TestS38OldSnapshot(t *testing.T) {
	everyWay(t, func(t *testing.T, w *world) {
		must(t, w.tx(w.holder(41), set(41)))
		a, err := w.BeginTx(w.ctx, &sql.TxOptions{Isolation: w.level})
		must(t, err)
		defer a.Rollback()
		var balance int
		must(t, a.QueryRow("SELECT balance FROM account WHERE id = 'a'").Scan(&balance))
		must(t, w.tx(w.holder(42), set(42)))
		err = pgfence.Claim(w.holder(41), a, "a")
		if w.level == sql.LevelReadCommitted && !errors.Is(err, fence.ErrStaleToken) {
			t.Errorf("refusal: %v", err)
		}
		if w.level != sql.LevelReadCommitted && stateOf(err) != "40001" {
			t.Errorf("with an old snapshot: %v", err)
		}
		if err := a.Commit(); !errors.Is(err, sql.ErrTxDone) {
			t.Errorf("commit: %v", err)
		}
		start(func() error { return w.tx(w.holder(41), set(1)) }).end(t, fence.ErrStaleToken)
		w.has(t, 42)
	})
}

// The first claims of a resource come at once, before there is a row to lock.
func TestFirstClaims(t *testing.T) {
	everyWay(t, func(t *testing.T, w *world) {
		var next pending
		must(t, w.tx(w.holder(42), func(ctx context.Context, tx *sql.Tx) error {
			next = start(func() error { return w.tx(w.holder(41), set(1)) })
			w.blocked(t, 1)
			return set(42)(ctx, tx)
		}))
		next.end(t, fence.ErrStaleToken)
		w.has(t, 42)
	})
}

// S39: B has been granted 42 and has done nothing yet. A can write until B claims, so B claims at once.
func TestS39IdleSuccessor(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		store, err := pgfence.New(w.DB, w.opts...)
		must(t, err)
		must(t, w.tx(w.holder(41), set(41)))
		must(t, w.tx(w.holder(41), set(1))) // the fault: nobody has told the database of 42
		must(t, fence.Claim(w.holder(42), store, "a"))
		start(func() error { return w.tx(w.holder(41), set(2)) }).end(t, fence.ErrStaleToken)
		w.has(t, 1)
	})
}

// S41: A's lease has ended and B holds. What A does to give the resource back is refused like any other write.
func TestS41LateRelease(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		exec(t, w.DB, "CREATE TABLE owner (resource text PRIMARY KEY, value text)")
		take := func(token fence.Token, name string) error {
			return w.tx(w.holder(token), func(ctx context.Context, tx *sql.Tx) error {
				return put(ctx, tx, "owner", "a", name)
			})
		}
		release := func(token fence.Token) error {
			return w.tx(w.holder(token), func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, "DELETE FROM owner WHERE resource = 'a'")
				return err
			})
		}
		must(t, take(41, "A"))
		must(t, take(42, "B"))
		start(func() error { return release(41) }).end(t, fence.ErrStaleToken)
		if n := w.number(t, "SELECT count(*) FROM owner WHERE value = 'B'"); n != 1 {
			t.Error("B owns it no more")
		}
		must(t, release(42))
	})
}

// A claim has no parameters, so it needs no care with a pooler: not with pgx's default mode either, whose statements with
// parameters fail there.
func TestClaimsThroughPooler(t *testing.T) {
	w := newWorld(t, "pgx")
	pooler := servertest.PgBouncer(t, shared, "default_pool_size = 2")
	db := open(t, "pgx", pooler.DSN(w.name(t)))
	db.SetMaxIdleConns(8)
	all := func(f func(resource string, n int) error) error {
		var calls sync.WaitGroup
		errs := make(chan error, 8)
		for i := range cap(errs) { // more than the pooler has connections, so that these change hands
			calls.Go(func() {
				for n := range 30 {
					if err := f(string(rune('a'+i)), n); err != nil {
						errs <- err
						return
					}
				}
			})
		}
		calls.Wait()
		close(errs)
		return <-errs
	}
	must(t, all(func(resource string, n int) error {
		return pgfence.Tx(w.holder(fence.Token(n+1)), db, resource, nothing)
	}))
	if err := all(func(resource string, _ int) error {
		_, err := db.ExecContext(w.ctx, "SELECT $1::text", resource)
		return err
	}); err == nil {
		t.Error("statements with parameters did not fail: this test shows nothing")
	}
}
