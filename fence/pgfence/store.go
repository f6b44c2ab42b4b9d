package pgfence

import (
	"context"
	"database/sql"

	"github.com/quorumlock/quorumlock/fence"
)

// Store is the [fence.Checker] whose atomic step is a transaction. All methods are safe for concurrent use.
type Store struct {
	db     *sql.DB
	config config
}

var _ fence.Checker = (*Store)(nil)

// New gives the Store of a database, in which [Migrate] has been called. It asks the database nothing; a bad option is a
// *fence.FieldError.
func New(db *sql.DB, opts ...Option) (*Store, error) {
	c, err := configure(opts)
	if err != nil {
		return nil, err
	}
	if err := checkDB(db); err != nil {
		return nil, err
	}
	return &Store{db: db, config: c}, nil
}

// Do is Checker.Do: [Tx], with the transaction in the context of write, where [TxFrom] finds it, and with one difference:
// write runs once at most. What it does may not be repeatable (a request's body is read once), so only a claim that fails for
// others' sake is tried again; later the error, with its SQLSTATE, is the caller's. Where writes can be repeated, as those of an
// httpfence.Handler can, a checker of one's own whose Do calls Tx repeats them.
//
// The claim needs no write: fence.Claim(ctx, store, resource) is the way to claim as soon as the lock is granted.
func (s *Store) Do(ctx context.Context, resource string, write func(ctx context.Context) error) error {
	if write == nil {
		return &fence.FieldError{Field: "write", Problem: "must not be nil"}
	}
	return s.config.run(ctx, s.db, resource,
		func(ctx context.Context, _ *sql.Tx) error { return write(ctx) },
		func(called bool) bool { return !called })
}
