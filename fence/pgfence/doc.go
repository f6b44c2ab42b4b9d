// Package pgfence makes a PostgreSQL database refuse the writes of a lock holder that has been succeeded: the database keeps,
// for each resource, the highest grant it has accepted, and a transaction that shows a lower one commits nothing. It uses
// database/sql only, so the driver is the caller's choice; it is tested with pgx and lib/pq, and needs PostgreSQL 14 or
// newer.
//
// The table of accepted grants must lie in the database that holds the data, since both are written in one transaction.
// [Migrate] makes it. Then either
//
//	err := mutex.Do(ctx, func(ctx context.Context, _ quorumlock.Token) error {
//		return pgfence.Tx(ctx, db, "account-7", func(ctx context.Context, tx *sql.Tx) error {
//			_, err := tx.ExecContext(ctx, "UPDATE account SET balance = balance + 1 WHERE id = 7")
//			return err
//		})
//	})
//
// or, in a transaction of one's own, [Claim] as its first statement. The grant comes from the context, see package fence.
// [Store] is the same as a [fence.Checker].
//
// # What a claim does
//
// A claim is one statement that compares the token with the one kept, keeps the new one, and holds the lock of its row until
// the transaction ends. So of two transactions with claims on one resource one runs entirely after the other, at every
// isolation level: under READ COMMITTED the second waits for the first, under REPEATABLE READ and SERIALIZABLE it waits and
// then fails with SQLSTATE 40001, whereupon Tx starts it again. A transaction whose token is lower than one that has
// committed is refused. The claim costs one round trip.
//
// # What it does not do
//
// It does not fence what is done outside the transaction, nor readers without a claim, nor writers that do not ask. A
// successor that has neither written nor claimed is not known to the database, so its predecessor can still write: claim
// right after the lock was granted, and before reading what the work depends on ([fence.Claim] with a [Store]). A database
// that loses acknowledged commits in a failover, as asynchronous replication does, loses accepted grants with them. And a
// holder that stands still within a transaction keeps its successor waiting: set idle_in_transaction_session_timeout.
// docs/FENCING.md has the whole list.
package pgfence
