package pgfence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/quorumlock/quorumlock/fence"
)

// Tx runs fn in a transaction that begins with a claim of resource (see [Claim]), and commits it if fn returns nil. Unless
// the error is an *UnknownOutcomeError nothing was committed; an error of fn is found in it by errors.Is and errors.As.
//
// A transaction that the server rolls back as a serialization failure or a deadlock (SQLSTATE 40001, 40P01) runs again, with
// the same grant, after a growing pause, until ctx ends. So fn may run several times: it has no effect outside the
// transaction, and it returns the errors of its statements (wrapped at will), for one that it keeps to itself makes the
// commit fail. It neither commits nor rolls back. If fn panics the transaction is rolled back and the panic goes on.
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
	if t, ok := ctx.Value(txKey{}).(transaction); ok && t.db == db && t.resource == resource {
		const problem = "is claimed by the transaction in the context, which would be waited for: use that one"
		return &fence.FieldError{Field: "resource", Value: resource, Problem: problem}
	}
	for attempt := 0; ; attempt++ {
		called, err := c.try(ctx, db, resource, fn)
		if err == nil || !transient(err) || !again(called) {
			return err
		}
		if pause(ctx, attempt) != nil {
			return fmt.Errorf("pgfence: %q: nothing was committed by %d attempts: %w", resource, attempt+1, withContext(ctx, err))
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
	if err := fn(context.WithValue(ctx, txKey{}, transaction{tx, db, resource}), tx); err != nil {
		return true, withContext(ctx, err)
	}
	return true, commit(ctx, tx, resource)
}

func commit(ctx context.Context, tx *sql.Tx, resource string) error {
	if ctx.Err() != nil { // Commit looks too, but its answer cannot be told from a driver's
		return fmt.Errorf("pgfence: %q: nothing was committed: %w", resource, withContext(ctx, ctx.Err()))
	}
	err := tx.Commit()
	switch {
	case err == nil && ctx.Err() == nil:
		return nil
	case err == nil:
		// A commit that waits for a synchronous standby and is cancelled has taken effect on the primary alone, and is
		// answered like one that is safe; pgx has closed the connection by then, lib/pq hands the answer on.
		return &UnknownOutcomeError{Resource: resource, Err: withContext(ctx, errEndedMeanwhile)}
	case errors.Is(err, sql.ErrTxDone):
		return fmt.Errorf("pgfence: %q: the transaction had been ended before the commit: %w", resource, withContext(ctx, err))
	case rolledBack(err):
		return fmt.Errorf("pgfence: %q: commit: %w", resource, err)
	}
	return &UnknownOutcomeError{Resource: resource, Err: withContext(ctx, err)}
}

var errEndedMeanwhile = errors.New("the context ended during the commit, which may not have been replicated")

const (
	firstPause = 2 * time.Millisecond
	mostPause  = 200 * time.Millisecond
)

// pause waits a random time up to one that doubles with each attempt, so that those who failed together do not meet again.
func pause(ctx context.Context, attempt int) error {
	timer := time.NewTimer(rand.N(min(firstPause<<min(attempt, 10), mostPause)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

type txKey struct{}

type transaction struct {
	tx       *sql.Tx
	db       *sql.DB
	resource string
}

// TxFrom gives the transaction in which a function of Tx or of Store.Do runs, from the context it was called with.
func TxFrom(ctx context.Context) (*sql.Tx, bool) {
	t, ok := ctx.Value(txKey{}).(transaction)
	return t.tx, ok
}
