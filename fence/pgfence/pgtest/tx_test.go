package pgtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/fence/pgfence"
)

func TestTxCommits(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		must(t, w.tx(w.holder(41), func(ctx context.Context, tx *sql.Tx) error {
			if in, ok := pgfence.TxFrom(ctx); !ok || in != tx {
				t.Error("the context does not carry the transaction")
			}
			return set(41)(ctx, tx)
		}))
		w.has(t, 41)
	})
}

// Whatever ends a function otherwise than by nil, nothing is committed, the claim included.
func TestTxRollsBack(t *testing.T) {
	failure := errors.New("no")
	eachDriver(t, func(t *testing.T, w *world) {
		w.SetMaxOpenConns(1) // a transaction left open would block the next one
		if err := w.tx(w.holder(42), func(ctx context.Context, tx *sql.Tx) error {
			must(t, set(42)(ctx, tx))
			return fmt.Errorf("really: %w", failure)
		}); !errors.Is(err, failure) {
			t.Errorf("an error: %v", err)
		}
		func() {
			defer func() {
				if got := recover(); got != failure {
					t.Errorf("recovered %v", got)
				}
			}()
			_ = w.tx(w.holder(42), func(ctx context.Context, tx *sql.Tx) error {
				must(t, set(42)(ctx, tx))
				panic(failure)
			})
		}()
		if err := w.tx(w.holder(42), func(ctx context.Context, tx *sql.Tx) error {
			must(t, set(42)(ctx, tx))
			return tx.Rollback()
		}); !errors.Is(err, sql.ErrTxDone) {
			t.Errorf("a function that rolls back: %v", err)
		}
		w.has(t, 100)
		must(t, w.tx(w.holder(41), set(41))) // 42 was not kept
	})
}

// The hold ends while its work is in a transaction. The work is finished before anybody looks at the context, as when nothing
// in it waits.
func TestTxAfterLoss(t *testing.T) {
	lost := errors.New("lost")
	each(t, func(t *testing.T, w *world) {
		for name, fn := range map[string]func(ctx context.Context, tx *sql.Tx) error{
			"nil": nothing,
			"waiting": func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, "SELECT pg_sleep(60)")
				return err
			},
		} {
			ctx, lose := context.WithCancelCause(w.holder(42))
			err := w.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
				must(t, set(42)(ctx, tx))
				lose(lost)
				return fn(ctx, tx)
			})
			var unknown *pgfence.UnknownOutcomeError
			if !errors.Is(err, context.Canceled) || !errors.Is(err, lost) || errors.As(err, &unknown) {
				t.Errorf("%s: %v", name, err)
			}
		}
		must(t, w.tx(w.holder(41), nothing))
		w.has(t, 100)
	})
}

// A claim that waits for the row ends with its context.
func TestClaimObeysContext(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		first, err := w.BeginTx(w.ctx, nil)
		must(t, err)
		defer first.Rollback()
		must(t, pgfence.Claim(w.holder(41), first, "a"))
		ctx, cancel := context.WithCancel(w.holder(42))
		done := make(chan error, 1)
		go func() { done <- w.tx(ctx, set(42)) }()
		w.blocked(t, 1)
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		must(t, first.Commit())
		w.has(t, 100)
	})
}

// After a refusal the transaction cannot be committed, even by a caller who does not look at the error.
func TestRefusalEndsTransaction(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		must(t, w.tx(w.holder(42), set(42)))
		for name, ctx := range map[string]context.Context{
			"stale":    w.holder(41),
			"no grant": w.ctx,
			"another":  fence.NewContext(w.ctx, fence.Grant{Cluster: "cluster-1", Lock: "job-y", Token: 43}),
		} {
			tx, err := w.BeginTx(w.ctx, nil)
			must(t, err)
			if err := pgfence.Claim(ctx, tx, "a"); err == nil {
				t.Fatalf("%s: accepted", name)
			}
			if err := set(41)(w.ctx, tx); !errors.Is(err, sql.ErrTxDone) {
				t.Errorf("%s: write after the refusal: %v", name, err)
			}
			if err := tx.Commit(); !errors.Is(err, sql.ErrTxDone) {
				t.Errorf("%s: commit after the refusal: %v", name, err)
			}
		}
		w.has(t, 42)
	})
}

// Tx runs again what the server rolled back for others' sake, at whatever point it was, and gives up with its context.
func TestTxRetries(t *testing.T) {
	for _, state := range []string{"40001", "40P01"} {
		eachDriver(t, func(t *testing.T, w *world) {
			calls := 0
			must(t, w.tx(w.holder(41), func(ctx context.Context, tx *sql.Tx) error {
				if calls++; calls < 5 {
					return fmt.Errorf("statement: %w", raise(ctx, tx, state))
				}
				return set(calls)(ctx, tx)
			}))
			w.has(t, 5)

			ctx, cancel := context.WithCancel(w.holder(41))
			calls = 0
			err := w.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
				if calls++; calls == 3 {
					defer cancel()
				}
				return raise(ctx, tx, state)
			})
			if !errors.Is(err, context.Canceled) || stateOf(err) != state || calls != 3 {
				t.Errorf("after %d calls: %v", calls, err)
			}
		})
	}
}

// At commit: a constraint that is checked then.
func TestTxRetriesCommit(t *testing.T) {
	eachDriver(t, func(t *testing.T, w *world) {
		exec(t, w.DB, "CREATE SEQUENCE fails")
		exec(t, w.DB, `CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF nextval('fails') < 4 THEN RAISE EXCEPTION 'not now' USING ERRCODE = '40001'; END IF; RETURN NULL; END $$`)
		atCommit(t, w, "fail")
		calls := 0
		must(t, w.tx(w.holder(41), func(ctx context.Context, tx *sql.Tx) error {
			calls++
			return set(41)(ctx, tx)
		}))
		if w.has(t, 41); calls != 4 {
			t.Errorf("%d calls", calls)
		}
	})
}

// Other errors are not retried, and at COMMIT they prove that nothing was committed.
func TestTxReturnsErrors(t *testing.T) {
	eachDriver(t, func(t *testing.T, w *world) {
		exec(t, w.DB, "ALTER TABLE account ADD UNIQUE (balance) DEFERRABLE INITIALLY DEFERRED")
		exec(t, w.DB, "INSERT INTO account VALUES ('b', 7)")
		calls := 0
		err := w.tx(w.holder(41), func(ctx context.Context, tx *sql.Tx) error {
			calls++
			return set(7)(ctx, tx)
		})
		var unknown *pgfence.UnknownOutcomeError
		if stateOf(err) != "23505" || errors.As(err, &unknown) || !errors.Is(err, fence.ErrNotWritten) || calls != 1 {
			t.Errorf("after %d calls: %v", calls, err)
		}
		w.has(t, 100)
	})
}

// A function that hides the error of a statement hides nothing: PostgreSQL commits no transaction in which one failed.
func TestTxHiddenError(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		if err := w.tx(w.holder(42), func(ctx context.Context, tx *sql.Tx) error {
			must(t, set(42)(ctx, tx))
			_ = raise(ctx, tx, "23505")
			return nil
		}); err == nil {
			t.Error("no error")
		}
		w.has(t, 100)
		must(t, w.tx(w.holder(41), nothing)) // 42 was not kept
	})
}

// Store.Do calls its function once at most: the rest of it may not be repeatable.
func TestStoreRunsOnce(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		store, err := pgfence.New(w.DB, w.opts...)
		must(t, err)
		calls := 0
		err = store.Do(w.holder(41), "a", func(ctx context.Context) error {
			calls++
			tx, _ := pgfence.TxFrom(ctx)
			return raise(ctx, tx, "40001")
		})
		if stateOf(err) != "40001" || calls != 1 {
			t.Errorf("after %d calls: %v", calls, err)
		}

		// The claim is another matter: under the two upper levels it fails when it has waited for a commit.
		first, err := w.BeginTx(w.ctx, nil)
		must(t, err)
		defer first.Rollback()
		must(t, pgfence.Claim(w.holder(41), first, "a"))
		done := make(chan error, 1)
		go func() {
			done <- store.Do(w.holder(42), "a", func(ctx context.Context) error {
				calls++
				tx, _ := pgfence.TxFrom(ctx)
				return set(42)(ctx, tx)
			})
		}()
		w.blocked(t, 1)
		must(t, first.Commit())
		must(t, <-done)
		if w.has(t, 42); calls != 2 {
			t.Errorf("%d calls", calls)
		}
	})
}

func (w *world) name(t *testing.T) (name string) {
	t.Helper()
	must(t, w.QueryRow("SELECT current_database()").Scan(&name))
	return name
}

func raise(ctx context.Context, tx *sql.Tx, state string) error {
	_, err := tx.ExecContext(ctx, "DO $$ BEGIN RAISE EXCEPTION 'injected' USING ERRCODE = '"+state+"'; END $$")
	return err
}

func stateOf(err error) string {
	var e interface{ SQLState() string }
	if errors.As(err, &e) {
		return e.SQLState()
	}
	return ""
}
