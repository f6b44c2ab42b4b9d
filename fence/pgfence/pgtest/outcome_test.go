package pgtest

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/fence/pgfence"
)

// A function that ends the transaction itself may have committed, whatever it returns, so nobody is told that it has not. Where
// it was Claim that did, or the end of the context, it is known.
func TestFunctionThatEndsTheTransaction(t *testing.T) {
	failure := errors.New("no")
	eachDriver(t, func(t *testing.T, w *world) {
		must(t, pgfence.Tx(w.holder(42), w.DB, "taken", nothing))
		refused := func(ctx context.Context, tx *sql.Tx) error { return pgfence.Claim(ctx, tx, "taken") }
		for name, test := range map[string]struct {
			fn      func(ctx context.Context, tx *sql.Tx) error
			unknown bool
			is      error
		}{
			"commits":              {func(_ context.Context, tx *sql.Tx) error { return tx.Commit() }, true, sql.ErrTxDone},
			"commits and fails":    {func(_ context.Context, tx *sql.Tx) error { return errors.Join(tx.Commit(), failure) }, true, failure},
			"rolls back":           {func(_ context.Context, tx *sql.Tx) error { return tx.Rollback() }, true, sql.ErrTxDone},
			"rolls back and fails": {func(_ context.Context, tx *sql.Tx) error { return errors.Join(tx.Rollback(), failure) }, true, failure},
			"fails":                {func(context.Context, *sql.Tx) error { return failure }, false, failure},
			"is refused":           {refused, false, fence.ErrStaleToken},
			"hides a refusal":      {func(ctx context.Context, tx *sql.Tx) error { _ = refused(ctx, tx); return nil }, false, sql.ErrTxDone},
		} {
			err := w.tx(w.holder(41), func(ctx context.Context, tx *sql.Tx) error {
				must(t, set(41)(ctx, tx))
				return test.fn(ctx, tx)
			})
			if !errors.Is(err, test.is) || errors.Is(err, fence.ErrUnknownOutcome) != test.unknown {
				t.Errorf("%s: %v", name, err)
			}
			if committed := w.balance(t) == 41; committed && !test.unknown {
				t.Errorf("%s: it was committed", name)
			}
			exec(t, w.DB, "UPDATE account SET balance = 100")
		}
	})
}

// What is lost with the answer to a COMMIT is only the answer.
func TestUnknownOutcome(t *testing.T) {
	for how, committed := range map[cut]bool{unsent: false, unheard: true} {
		each(t, func(t *testing.T, w *world) {
			lossy := w.by(t, func() fate { return fate{how: how} })
			calls := 0
			err := lossy.tx(w.holder(41), func(ctx context.Context, tx *sql.Tx) error {
				calls++
				return set(41)(ctx, tx)
			})
			var unknown *pgfence.UnknownOutcomeError
			if !errors.As(err, &unknown) || unknown.Resource != "a" || calls != 1 {
				t.Fatalf("after %d calls: %v", calls, err)
			}
			must(t, w.tx(w.holder(41), nothing)) // waits for the end of the other
			if got := w.balance(t) == 41; got != committed {
				t.Errorf("committed: %v, want %v", got, committed)
			}
		})
	}
}

// The COMMIT of a lost connection is still on its way. Whoever claims before looking waits for it, and so sees its effect; a
// look without a claim is too early.
func TestLookAfterUnknownOutcome(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		release := make(chan struct{})
		lossy := w.by(t, func() fate { return fate{orphaned, release} })
		var unknown *pgfence.UnknownOutcomeError
		if err := lossy.tx(w.holder(41), set(41)); !errors.As(err, &unknown) {
			t.Fatal(err)
		}
		w.has(t, 100) // too early
		found := make(chan int, 1)
		go func() {
			var balance int
			if err := w.tx(w.holder(41), func(ctx context.Context, tx *sql.Tx) error {
				return tx.QueryRowContext(ctx, "SELECT balance FROM account WHERE id = 'a'").Scan(&balance)
			}); err != nil {
				t.Error(err)
			}
			found <- balance
		}()
		w.blocked(t, 1)
		close(release)
		if balance := <-found; balance != 41 {
			t.Errorf("found %d after the claim", balance)
		}
	})
}

// A context that ends while the COMMIT is under way leaves it open what became of it.
func TestCancelWithinCommit(t *testing.T) {
	eachDriver(t, func(t *testing.T, w *world) {
		exec(t, w.DB, "CREATE FUNCTION linger() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(60); RETURN NULL; END $$")
		atCommit(t, w, "linger")
		ctx, cancel := context.WithCancel(w.holder(41))
		done := make(chan error, 1)
		go func() { done <- w.tx(ctx, set(41)) }()
		w.until(t, "SELECT count(*) = 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'")
		began := time.Now()
		cancel()
		err := <-done
		var unknown *pgfence.UnknownOutcomeError
		if !errors.As(err, &unknown) || !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("returned %v after the end of its context", took)
		}
	})
}

// atCommit has a function run when a transaction that changed an account commits.
func atCommit(t *testing.T, w *world, function string) {
	t.Helper()
	exec(t, w.DB, "CREATE CONSTRAINT TRIGGER later AFTER UPDATE ON account DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION "+function+"()")
}

// by gives the same database by way of a proxy that does to each COMMIT what onCommit says.
func (w *world) by(t *testing.T, onCommit func() fate) *world {
	t.Helper()
	proxy := newWire(t, shared.Addr)
	proxy.onCommit = onCommit
	other := *w
	other.DB = open(t, w.driver, shared.DSNAt(proxy.addr, w.name(t)))
	return &other
}
