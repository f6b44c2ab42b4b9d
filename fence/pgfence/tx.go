package pgfence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/fence/internal/backoff"
	"github.com/quorumlock/quorumlock/fence/internal/ended"
)

// Tx runs fn in a transaction that begins with a claim of resource (see [Claim]), and commits it if fn returns nil. Unless
// the error is an *UnknownOutcomeError nothing was committed; an error of fn is found in it by errors.Is and errors.As. One that
// came after fn had succeeded matches fence.ErrNotWritten then.
//
// A transaction that the server rolls back as a serialization failure or a deadlock (SQLSTATE 40001, 40P01) runs again, with
// the same grant, after a growing pause, until ctx ends. So fn may run several times: it has no effect outside the
// transaction, and it returns the errors of its statements (wrapped at will), for one that it keeps to itself makes the
// commit fail. If fn panics the transaction is rolled back and the panic goes on.
//
// fn neither commits nor rolls back. Where it does so by the transaction's methods the error is an *UnknownOutcomeError, unless
// ctx has ended by then too, at which database/sql rolls back. What it does by statements Tx does not see: after a ROLLBACK, COMMIT
// or PREPARE TRANSACTION of its own the claim is gone, nothing fences the statements that follow, and with pgx Tx returns nil
// whatever became of the work. To look before each commit would cost every transaction a round trip.
//
// A Tx within fn is a transaction of its own, on another connection. One of a resource that fn's is waiting with is refused with a
// *fence.FieldError. Of several resources the Tx nest in one order everywhere, or one Tx claims them all, which is better: a
// deadlock among transactions of one program is none that PostgreSQL sees, so it lasts until ctx ends.
//
// fn's context carries the transaction, see [TxFrom]. ctx bounds everything, as far as the driver obeys it: from a server that
// stands still pgx returns when ctx ends, lib/pq when the server goes on or the connection is given up. With the context of a
// hold, nothing is committed that was not under way when the hold ended.
func Tx(ctx context.Context, db *sql.DB, resource string, fn func(ctx context.Context, tx *sql.Tx) error, opts ...Option) error {
	c, err := configure(opts)
	if err != nil {
		return err
	}
	if err := checkDB(db); err != nil {
		return err
	}
	if fn == nil {
		return &fence.FieldError{Field: "fn", Problem: "must not be nil"}
	}
	return c.run(ctx, db, resource, fn, func(bool) bool { return true })
}

func checkDB(db *sql.DB) error {
	if db == nil {
		return &fence.FieldError{Field: "db", Problem: "must not be nil"}
	}
	return nil
}

// run is Tx. again decides whether a transaction that failed for others' sake runs again, given whether fn has been called in it.
func (c config) run(
	ctx context.Context, db *sql.DB, resource string, fn func(context.Context, *sql.Tx) error, again func(called bool) bool,
) error {
	if _, err := shown(ctx, resource); err != nil { // before a connection is taken
		return err
	}
	if err := checkNesting(ctx, db, resource); err != nil {
		return err
	}
	for attempt := 0; ; attempt++ {
		called, err := c.try(ctx, db, resource, fn)
		if err == nil || !transient(err) || !again(called) {
			return err
		}
		if between.Pause(ctx, attempt) != nil {
			return fmt.Errorf("pgfence: %q: %w by %d attempts: %w", resource, fence.ErrNotWritten, attempt+1, withContext(ctx, err))
		}
	}
}

func (c config) try(ctx context.Context, db *sql.DB, resource string, fn func(context.Context, *sql.Tx) error) (called bool, err error) {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: c.isolation})
	if err != nil {
		return false, fmt.Errorf("pgfence: begin: %w", withContext(ctx, err))
	}
	defer func() { _ = tx.Rollback() }() // of what was not committed, even by a panic
	if err := c.claim(ctx, tx, resource); err != nil {
		return false, err
	}
	t := &transaction{tx: tx, db: db, parent: enclosing(ctx), resources: []string{resource}}
	if err := fn(context.WithValue(ctx, txKey{}, t), tx); err != nil {
		return true, t.abandon(ctx, resource, err)
	}
	return true, t.commit(ctx, resource)
}

// abandon rolls back what a function has given up with err. If the function has ended the transaction by itself, past its
// promise, it may have committed.
func (t *transaction) abandon(ctx context.Context, resource string, err error) error {
	done := errors.Is(t.tx.Rollback(), sql.ErrTxDone)
	err = withContext(ctx, err)
	if done && ctx.Err() == nil && !t.wasRefused() {
		return &UnknownOutcomeError{Resource: resource, Err: fmt.Errorf("%w: %w", err, errEndedByFunction)}
	}
	return err
}

func (t *transaction) commit(ctx context.Context, resource string) error {
	if ctx.Err() != nil { // Commit looks too, but its answer cannot be told from a driver's
		return notWritten(resource, ended.Err(ctx))
	}
	err := t.tx.Commit()
	switch {
	case err == nil && ctx.Err() == nil:
		return nil
	case err == nil:
		// A commit that waits for a synchronous standby and is cancelled has taken effect on the primary alone, and is
		// answered like one that is safe; pgx has closed the connection by then, lib/pq hands the answer on.
		return &UnknownOutcomeError{Resource: resource, Err: withContext(ctx, errEndedMeanwhile)}
	case errors.Is(err, sql.ErrTxDone) && (ctx.Err() != nil || t.wasRefused()): // database/sql rolls back at the end of ctx
		return notWritten(resource, withContext(ctx, err))
	case errors.Is(err, sql.ErrTxDone):
		return &UnknownOutcomeError{Resource: resource, Err: fmt.Errorf("%w: %w", err, errEndedByFunction)}
	case rolledBack(err):
		return notWritten(resource, err)
	}
	return &UnknownOutcomeError{Resource: resource, Err: withContext(ctx, err)}
}

var errEndedByFunction = errors.New("the function has committed or rolled back by itself")

var errEndedMeanwhile = errors.New("the context ended during the commit, which may not have been replicated")

// between are the pauses from one transaction to the next.
var between = backoff.Backoff{First: 2 * time.Millisecond, Last: 200 * time.Millisecond}
