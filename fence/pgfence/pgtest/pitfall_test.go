package pgtest

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"testing"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/fence/pgfence"
)

// Each test shows what goes wrong without the right way, and that it does not with it.

func nothing(context.Context, *sql.Tx) error { return nil }

// The check in one transaction, the write in another: whatever happens between them is not seen.
func TestPitfallCheckThenWrite(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		must(t, w.tx(w.holder(41), nothing)) // the check passes
		must(t, w.tx(w.holder(42), set(42)))
		exec(t, w.DB, "UPDATE account SET balance = 1 WHERE id = 'a'")
		w.has(t, 1) // B's write is lost

		must(t, w.tx(w.holder(42), set(42)))
		start(func() error { return w.tx(w.holder(41), set(1)) }).end(t, fence.ErrStaleToken)
		w.has(t, 42)
	})
}

// B reads, then A writes, which it may as long as B has not claimed, then B writes what follows from what it read.
func TestPitfallReadBeforeClaim(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		must(t, w.tx(w.holder(41), set(100)))
		read := w.balance(t) // as B
		must(t, w.tx(w.holder(41), set(150)))
		must(t, w.tx(w.holder(42), set(read+1)))
		w.has(t, 101) // the 50 of A are lost

		store, err := pgfence.New(w.DB, w.opts...)
		must(t, err)
		must(t, fence.Claim(w.holder(43), store, "a"))
		read = w.balance(t)
		start(func() error { return w.tx(w.holder(42), set(150)) }).end(t, fence.ErrStaleToken)
		must(t, w.tx(w.holder(43), set(read+1)))
		w.has(t, 102)
	})
}

// The same within one transaction: the claim has to be its first statement. Under READ COMMITTED it is not too late for the
// check, but for the read.
func TestPitfallClaimLast(t *testing.T) {
	eachDriver(t, func(t *testing.T, w *world) {
		withdraw := func(claimFirst bool) {
			exec(t, w.DB, "UPDATE account SET balance = 100")
			b, err := w.BeginTx(w.ctx, nil)
			must(t, err)
			defer b.Rollback()
			if claimFirst {
				must(t, pgfence.Claim(w.holder(42), b, "a"))
			}
			var read int
			must(t, b.QueryRow("SELECT balance FROM account WHERE id = 'a'").Scan(&read))
			a := start(func() error { return w.tx(w.holder(41), set(50)) })
			if claimFirst {
				w.blocked(t, 1)
			} else {
				a.end(t, nil)
				must(t, pgfence.Claim(w.holder(42), b, "a"))
			}
			must(t, set(read-1)(w.ctx, b))
			must(t, b.Commit())
			if claimFirst {
				a.end(t, fence.ErrStaleToken)
			}
		}
		withdraw(false)
		w.has(t, 99) // what A wrote is lost
		exec(t, w.DB, "ALTER TABLE quorumlock_fence DISABLE TRIGGER ALL; DELETE FROM quorumlock_fence")
		must(t, pgfence.Migrate(w.ctx, w.DB))
		withdraw(true)
		w.has(t, 99) // A wrote nothing
	})
}

// A lock of the row instead of a write to it: under REPEATABLE READ who waited goes on with the state from before the other's
// commit. This is why a claim under the same grant writes too.
func TestPitfallLockedNotWritten(t *testing.T) {
	eachDriver(t, func(t *testing.T, w *world) {
		w.level, w.opts = sql.LevelRepeatableRead, []pgfence.Option{pgfence.Isolation(sql.LevelRepeatableRead)}
		exec(t, w.DB, "INSERT INTO account VALUES ('b', 0)")
		must(t, w.tx(w.holder(41), nothing))
		copyAcross := func(ctx context.Context, tx *sql.Tx) error { // writes another row than it reads
			_, err := tx.ExecContext(ctx, "UPDATE account SET balance = (SELECT balance FROM account WHERE id = 'a') WHERE id = 'b'")
			return err
		}
		lockOnly := func(fn func(context.Context, *sql.Tx) error) error {
			tx, err := w.BeginTx(w.ctx, &sql.TxOptions{Isolation: w.level})
			if err != nil {
				return err
			}
			defer tx.Rollback()
			if _, err := tx.Exec("SELECT FROM quorumlock_fence WHERE resource = 'a' AND token <= 41 FOR UPDATE"); err != nil {
				return err
			}
			if err := fn(w.ctx, tx); err != nil {
				return err
			}
			return tx.Commit()
		}
		claimed := func(fn func(context.Context, *sql.Tx) error) error { return w.tx(w.holder(41), fn) }
		two := func(run func(func(context.Context, *sql.Tx) error) error, value int) {
			var second pending
			must(t, run(func(ctx context.Context, tx *sql.Tx) error {
				second = start(func() error { return run(copyAcross) })
				w.blocked(t, 1)
				return set(value)(ctx, tx)
			}))
			second.end(t, nil)
		}
		copied := func() int { return w.number(t, "SELECT balance FROM account WHERE id = 'b'") }
		if two(lockOnly, 7); copied() != 100 {
			t.Errorf("with a lock only %d was read: the fault did not show", copied())
		}
		if two(claimed, 8); copied() != 8 {
			t.Errorf("with a claim %d was read", copied())
		}
	})
}

// Going back to a savepoint from before the claim takes the claim back, and its lock.
func TestPitfallSavepoint(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		for _, claimInside := range []bool{true, false} {
			must(t, w.tx(w.holder(41), set(41)))
			a, err := w.BeginTx(w.ctx, nil)
			must(t, err)
			defer a.Rollback()
			if !claimInside {
				must(t, pgfence.Claim(w.holder(41), a, "a"))
			}
			_, err = a.Exec("SAVEPOINT s")
			must(t, err)
			if claimInside {
				must(t, pgfence.Claim(w.holder(41), a, "a"))
			}
			_, err = a.Exec("ROLLBACK TO SAVEPOINT s")
			must(t, err)
			b := start(func() error { return w.tx(w.holder(42), set(42)) })
			if claimInside {
				b.end(t, nil)
			} else {
				w.blocked(t, 1)
			}
			must(t, set(1)(w.ctx, a))
			must(t, a.Commit())
			if !claimInside {
				b.end(t, nil)
				w.has(t, 42)
				return
			}
			w.has(t, 1) // the fault: B's write is lost
			exec(t, w.DB, "ALTER TABLE quorumlock_fence DISABLE TRIGGER ALL; DELETE FROM quorumlock_fence")
			must(t, pgfence.Migrate(w.ctx, w.DB))
		}
	})
}

// What a function does elsewhere stays done when its transaction is rolled back, and is done again when it is tried again. A
// row in the same transaction, by which something else does it later, is there exactly if the write is.
func TestPitfallSideEffect(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		exec(t, w.DB, "CREATE TABLE outbox (id bigserial, text text)")
		sent := 0 // mails
		calls := 0
		work := func(ctx context.Context, tx *sql.Tx) error {
			sent++
			if _, err := tx.ExecContext(ctx, "INSERT INTO outbox (text) VALUES ('mail')"); err != nil {
				return err
			}
			if calls++; calls == 1 {
				return raise(ctx, tx, "40001")
			}
			return nil
		}
		must(t, w.tx(w.holder(42), work))
		if sent != 2 {
			t.Errorf("%d mails sent: the fault did not show", sent)
		}
		// A stale holder that acts and only then writes.
		sent++
		start(func() error {
			return w.tx(w.holder(41), func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, "INSERT INTO outbox (text) VALUES ('stale')")
				return err
			})
		}).end(t, fence.ErrStaleToken)
		if n := w.number(t, "SELECT count(*) FROM outbox"); n != 1 || sent != 3 {
			t.Errorf("%d mails in the outbox, %d sent at once", n, sent)
		}
	})
}

// B moves 60 from a to b in two transactions. Nobody else is to see the state between them; a reader who does not claim does,
// though it believes it holds the lock.
func TestPitfallUnfencedReader(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		exec(t, w.DB, "INSERT INTO account VALUES ('b', 0)")
		must(t, w.tx(w.holder(41), nothing))
		add := func(id string, n int) func(ctx context.Context, tx *sql.Tx) error {
			return func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, "UPDATE account SET balance = balance + $1 WHERE id = $2", n, id)
				return err
			}
		}
		must(t, w.tx(w.holder(42), add("a", -60)))
		if sum := w.number(t, "SELECT sum(balance) FROM account"); sum != 40 {
			t.Errorf("an unfenced reader saw a sum of %d: the fault did not show", sum)
		}
		start(func() error {
			return w.tx(w.holder(41), func(ctx context.Context, tx *sql.Tx) error {
				t.Error("a stale reader got to read")
				return nil
			})
		}).end(t, fence.ErrStaleToken)
		must(t, w.tx(w.holder(42), add("b", 60)))
		if sum := w.number(t, "SELECT sum(balance) FROM account"); sum != 100 {
			t.Errorf("the sum is %d", sum)
		}
	})
}

// A holder that stands still within its transaction keeps its successor waiting, until the server ends its session.
func TestPitfallIdleInTransaction(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		a, err := w.BeginTx(w.ctx, nil)
		must(t, err)
		defer a.Rollback()
		must(t, pgfence.Claim(w.holder(41), a, "a"))
		ctx, cancel := context.WithCancel(w.holder(42))
		b := start(func() error { return w.tx(ctx, set(42)) })
		w.blocked(t, 1) // and so it stays
		cancel()
		b.end(t, context.Canceled)
		must(t, a.Rollback())

		limited := open(t, w.driver, w.dsn+"&idle_in_transaction_session_timeout=300")
		a, err = limited.BeginTx(w.ctx, nil)
		must(t, err)
		defer a.Rollback()
		must(t, pgfence.Claim(w.holder(41), a, "a"))
		must(t, w.tx(w.holder(42), set(42)))
		if err := errors.Join(set(1)(w.ctx, a), a.Commit()); err == nil {
			t.Error("A could go on")
		}
		w.has(t, 42)
	})
}

// The fence in another schema than its writers think: by search_path each finds a table of its own.
func TestPitfallSearchPath(t *testing.T) {
	eachDriver(t, func(t *testing.T, w *world) {
		exec(t, w.DB, "DROP SCHEMA IF EXISTS mine CASCADE; CREATE SCHEMA mine")
		other := *w
		other.DB = open(t, w.driver, w.dsn+"&search_path=mine,public")
		must(t, pgfence.Migrate(w.ctx, other.DB)) // finds the one in public
		if n := w.number(t, "SELECT count(*) FROM pg_class WHERE relname = 'quorumlock_fence'"); n != 1 {
			t.Fatalf("%d tables", n)
		}
		must(t, pgfence.Migrate(w.ctx, other.DB, pgfence.Table("mine.quorumlock_fence"))) // as a tool that runs with another path would
		must(t, other.tx(w.holder(42), set(42)))
		must(t, w.tx(w.holder(41), set(41))) // the fault
		w.opts = []pgfence.Option{pgfence.Table("public.quorumlock_fence")}
		other.opts = w.opts
		must(t, other.tx(w.holder(42), set(42)))
		start(func() error { return w.tx(w.holder(41), set(41)) }).end(t, fence.ErrStaleToken)
		w.has(t, 42)
	})
}

// Without a schema in its name a temporary table takes the fence's place in one session, and knows of no grant. Migrate in that
// session says so.
func TestPitfallTemporaryTable(t *testing.T) {
	eachDriver(t, func(t *testing.T, w *world) {
		must(t, w.tx(w.holder(42), set(42)))
		w.SetMaxOpenConns(1)
		exec(t, w.DB, "CREATE TEMP TABLE quorumlock_fence (LIKE public.quorumlock_fence INCLUDING ALL)")
		must(t, w.tx(w.holder(41), set(41))) // the fault
		if err := pgfence.Migrate(w.ctx, w.DB); !errors.Is(err, fence.ErrInvalid) {
			t.Errorf("Migrate: %v", err)
		}
		named := pgfence.Table("public.quorumlock_fence")
		must(t, pgfence.Migrate(w.ctx, w.DB, named))
		if err := pgfence.Tx(w.holder(41), w.DB, "a", set(40), named); !errors.Is(err, fence.ErrStaleToken) {
			t.Errorf("with the schema named: %v", err)
		}
		w.has(t, 41)
	})
}

// Statements that end the transaction go past the library: the claim is gone, and what follows is fenced by nothing and committed
// by itself. lib/pq notices at the commit, pgx does not, and then Tx returns nil. A function leaves such statements alone.
func TestPitfallRawRollback(t *testing.T) {
	eachDriver(t, func(t *testing.T, w *world) {
		err := w.tx(w.holder(41), func(ctx context.Context, tx *sql.Tx) error {
			must(t, set(41)(ctx, tx))
			_, err := tx.ExecContext(ctx, "ROLLBACK")
			must(t, err)
			must(t, w.tx(w.holder(42), set(42))) // does not wait: no claim is left
			return set(1)(ctx, tx)
		})
		w.has(t, 1) // the fault: a stale write over the successor's
		if err != nil && !errors.Is(err, fence.ErrUnknownOutcome) {
			t.Errorf("told to have failed: %v", err)
		}

		failure := errors.New("no")
		if err := w.tx(w.holder(43), func(ctx context.Context, tx *sql.Tx) error {
			must(t, set(43)(ctx, tx))
			return failure // is how a function rolls back
		}); !errors.Is(err, failure) || errors.Is(err, fence.ErrUnknownOutcome) {
			t.Error(err)
		}
		w.has(t, 1)
	})
}

// Transactions of one program that nest two resources in opposite orders wait for each other, each within the other's function,
// where PostgreSQL's detector does not see it: until a context ends. Claims of one transaction it sees, and Tx begins again.
func TestPitfallNestedInOppositeOrders(t *testing.T) {
	eachDriver(t, func(t *testing.T, w *world) {
		type second func(ctx context.Context, tx *sql.Tx, resource string) error
		opposite := func(ctx context.Context, then second) (first, other pending) {
			var met sync.WaitGroup // each has claimed its first before it asks for its second
			met.Add(2)
			run := func(outer, inner string) pending {
				meet := sync.OnceFunc(func() { met.Done(); met.Wait() })
				return start(func() error {
					return pgfence.Tx(ctx, w.DB, outer, func(ctx context.Context, tx *sql.Tx) error {
						meet()
						return then(ctx, tx, inner)
					})
				})
			}
			return run("a", "b"), run("b", "a")
		}
		ctx, cancel := context.WithCancel(w.holder(41))
		defer cancel()
		first, other := opposite(ctx, func(ctx context.Context, _ *sql.Tx, resource string) error {
			return pgfence.Tx(ctx, w.DB, resource, nothing)
		})
		w.blocked(t, 2)
		w.until(t, "SELECT count(*) = 2 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"+
			" AND clock_timestamp() > query_start + 2 * current_setting('deadlock_timeout')::interval")
		cancel()
		first.end(t, context.Canceled)
		other.end(t, context.Canceled)

		first, other = opposite(w.holder(41), func(ctx context.Context, tx *sql.Tx, resource string) error {
			return pgfence.Claim(ctx, tx, resource)
		})
		first.end(t, nil)
		other.end(t, nil)
	})
}
