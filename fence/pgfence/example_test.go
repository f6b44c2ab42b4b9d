package pgfence_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/fence/pgfence"
)

// These need a node and a database. In a service they come from quorumlock.Open, and from sql.Open with the driver of its choice.
var (
	node *quorumlock.Node
	db   *sql.DB
)

// A worker that is the only one to do so adds a day's interest. If it is paused past its lease and succeeded, its late write
// is refused.
func ExampleTx() {
	ctx := context.Background()
	if err := pgfence.Migrate(ctx, db); err != nil {
		fmt.Println(err)
		return
	}
	err := quorumlock.NewMutex(node, "interest").Do(ctx, func(ctx context.Context, _ quorumlock.Token) error {
		return pgfence.Tx(ctx, db, "interest", func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "UPDATE account SET balance = balance * 1.0001")
			return err
		})
	})
	var unknown *pgfence.UnknownOutcomeError
	switch {
	case errors.Is(err, fence.ErrStaleToken):
		fmt.Println("another worker has taken over: ", err)
	case errors.As(err, &unknown):
		fmt.Println("it may have happened: look before trying again: ", err)
	}
}

// The claim as the first statement of a transaction that the caller begins and ends.
func ExampleClaim() {
	post := func(ctx context.Context) error { // ctx is that of a hold
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if err := pgfence.Claim(ctx, tx, "ledger"); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO ledger (text) VALUES ('posted')"); err != nil {
			return err
		}
		return tx.Commit()
	}
	_ = post
}

// Claim before you read: a holder that computes what it writes from what it has read claims as soon as it is granted the
// lock. From then on no predecessor can change what it reads; before, its predecessor's last write could come after the read,
// and be lost.
func ExampleStore_claimBeforeRead() {
	ctx := context.Background()
	store, err := pgfence.New(db)
	if err != nil {
		fmt.Println(err)
		return
	}
	err = quorumlock.NewMutex(node, "account-7").Do(ctx, func(ctx context.Context, _ quorumlock.Token) error {
		if err := fence.Claim(ctx, store, "account-7"); err != nil {
			return err
		}
		var balance int
		if err := db.QueryRowContext(ctx, "SELECT balance FROM account WHERE id = 7").Scan(&balance); err != nil {
			return err
		}
		fee := 1 + balance/100 // what takes a while to find out
		return pgfence.Tx(ctx, db, "account-7", func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "UPDATE account SET balance = balance - $1 WHERE id = 7", fee)
			return err
		})
	})
	if err != nil {
		fmt.Println(err)
	}
}

// An operation that happens once whatever becomes of its COMMIT: a row with its id is written in the same transaction. The
// claim comes first and waits for an earlier attempt that may still be on its way, so what the second one finds is final.
func ExampleUnknownOutcomeError() {
	pay := func(ctx context.Context, operation string) error {
		for {
			err := pgfence.Tx(ctx, db, "account-7", func(ctx context.Context, tx *sql.Tx) error {
				done, err := tx.ExecContext(ctx, "INSERT INTO operation (id) VALUES ($1) ON CONFLICT DO NOTHING", operation)
				if err != nil {
					return err
				}
				if n, err := done.RowsAffected(); n == 0 || err != nil {
					return err // it was done by an earlier attempt
				}
				_, err = tx.ExecContext(ctx, "UPDATE account SET balance = balance - 10 WHERE id = 7")
				return err
			})
			var unknown *pgfence.UnknownOutcomeError
			if !errors.As(err, &unknown) || ctx.Err() != nil {
				return err
			}
		}
	}
	_ = pay
}
