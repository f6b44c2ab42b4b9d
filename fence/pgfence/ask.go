package pgfence

import (
	"context"
	"crypto/rand"
	"database/sql"
)

// ask reads one row by a query of constants, such that it works through a pooler that gives each transaction another
// connection. There a prepared statement that is left behind is met by the next client: pgx prepares every query in its default
// mode, and keeps it, under a name that is a hash of the text, so a second client that asks the same is told that the statement
// exists already. Here each text is one of its own, and nothing is left of it when the transaction ends.
func ask(ctx context.Context, tx *sql.Tx, query string, dest ...any) error {
	statement, err := tx.PrepareContext(ctx, query+" /* "+rand.Text()+" */")
	if err != nil {
		return err
	}
	defer func() { _ = statement.Close() }()
	return statement.QueryRowContext(ctx).Scan(dest...)
}
