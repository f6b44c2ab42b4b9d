package pgfence

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"strings"

	"github.com/quorumlock/quorumlock/fence"
)

//go:embed schema.sql
var schema string

// Schema is the SQL that [Migrate] runs, for those who have a migration tool of their own: several statements, which may run
// again. With the default table it is the file schema.sql. The only option that counts is [Table]; its schema must exist.
func Schema(opts ...Option) (string, error) {
	c, err := configure(opts)
	if err != nil {
		return "", err
	}
	return c.ddl(), nil
}

func (c config) ddl() string {
	return strings.NewReplacer(`"`+DefaultTable+`"`, c.name(), `"`+DefaultTable+`_keep"`, c.function()).Replace(schema)
}

// Migrate makes the table of accepted grants, and the triggers by which the database refuses to lower or to forget one. Where
// all that is there it changes nothing, takes no lock that a writer would notice, and needs no right to create anything. Any
// number of instances may migrate at the same time.
//
// A table of that name with other columns is a *fence.FieldError. ctx bounds the whole call, and without an error there is a table.
func Migrate(ctx context.Context, db *sql.DB, opts ...Option) error {
	c, err := configure(opts)
	if err != nil {
		return err
	}
	if err := checkDB(db); err != nil {
		return err
	}
	// Not serializable, even if that is the default: what is seen after the wait for the others has to be what they did.
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return c.migrating(err)
	}
	defer func() { _ = tx.Rollback() }()
	if err := c.migrate(ctx, tx); err != nil {
		return c.migrating(err)
	}
	if err := tx.Commit(); err != nil {
		return c.migrating(err)
	}
	return nil
}

func (c config) migrating(err error) error {
	return fmt.Errorf("pgfence: migrate %s: %w", c.name(), err)
}

// turn is the advisory lock by which instances migrate one after the other: CREATE TABLE IF NOT EXISTS fails when two of them
// run at once.
const turn = "SELECT pg_advisory_xact_lock(7163384653291225447)"

func (c config) migrate(ctx context.Context, tx *sql.Tx) error {
	if done, err := c.migrated(ctx, tx); done || err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, turn); err != nil {
		return err
	}
	if done, err := c.migrated(ctx, tx); done || err != nil { // another one may have
		return err
	}
	if _, err := tx.ExecContext(ctx, c.ddl()); err != nil {
		return err
	}
	done, err := c.migrated(ctx, tx)
	if err == nil && !done {
		err = errors.New("the table is not what it was made to be")
	}
	return err
}

// form tells of a table: how many of the columns it has, whether it has their key, and how many of the triggers are enabled always.
const form = `
SELECT t.oid IS NOT NULL,
  (SELECT count(*) FROM pg_attribute a WHERE a.attrelid = t.oid AND a.attnotnull AND (a.attname, a.atttypid) IN (
    ('resource', 'text'::regtype), ('cluster', 'text'::regtype), ('lock', 'text'::regtype),
    ('token', 'int8'::regtype), ('accepted_at', 'timestamptz'::regtype))),
  EXISTS (SELECT FROM pg_index i JOIN pg_attribute a ON a.attrelid = t.oid AND a.attname = 'resource'
    WHERE i.indrelid = t.oid AND i.indisprimary AND i.indkey::text = a.attnum::text),
  (SELECT count(*) FROM pg_trigger g WHERE g.tgrelid = t.oid AND g.tgenabled = 'A' AND
    g.tgname IN ('quorumlock_keep_grant', 'quorumlock_keep_row', 'quorumlock_keep_rows'))
FROM (SELECT to_regclass($1)::oid AS oid) t`

const (
	columns  = 5
	triggers = 3
)

// migrated reports whether there is nothing left to do. That the table is another one is a *fence.FieldError: triggers that
// forbid a DELETE are not put on the table of somebody else.
func (c config) migrated(ctx context.Context, tx *sql.Tx) (bool, error) {
	var there, keyed bool
	var hasColumns, hasTriggers int
	if err := tx.QueryRowContext(ctx, form, c.name()).Scan(&there, &hasColumns, &keyed, &hasTriggers); err != nil {
		return false, err
	}
	if there && (hasColumns != columns || !keyed) {
		return false, &fence.FieldError{Field: "Table", Value: c.name(), Problem: "is there already, with other columns"}
	}
	return there && hasTriggers == triggers, nil
}
