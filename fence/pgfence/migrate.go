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

func (c config) ddl() string { return c.naming(schema) }

// guards is the schema without its first paragraph, which creates the table: for a table that is there.
func (c config) guards() string {
	_, rest, _ := strings.Cut(schema, "\n\n")
	return c.naming(rest)
}

// naming puts the names of the table and of its function in the place of those in schema.sql.
func (c config) naming(text string) string {
	return strings.NewReplacer(`"`+DefaultTable+`"`, c.name(), `"`+DefaultTable+`_keep"`, c.function()).Replace(text)
}

// Migrate makes the table of accepted grants, and the triggers by which the database refuses to lower or to forget one. Where
// all that is there it changes nothing, takes no lock that a writer would notice, and needs no right to create anything. Any
// number of instances may migrate at the same time.
//
// The table is the one that claims find, in whatever schema of the search_path it lies; it is made, in the first one, only if
// there is none. One that would not keep what it has accepted is a *fence.FieldError: with other columns, without the collation
// "C" that tells each name from every other, UNLOGGED or temporary, a view, partitioned or with heirs. ctx bounds the whole call,
// and without an error there is a table.
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
	if found, err := c.look(ctx, tx); err != nil || found.complete() {
		return err
	}
	if _, err := tx.ExecContext(ctx, turn); err != nil {
		return err
	}
	found, err := c.look(ctx, tx) // another one may have
	if err != nil || found.complete() {
		return err
	}
	// What is found stays found: by the names of the options alone CREATE would look into the first schema of the search_path
	// only, and make an empty table there that hides the one further on, with all it has accepted.
	text := c.ddl()
	if found.there {
		c.schema = found.schema
		text = c.guards()
	}
	if _, err := tx.ExecContext(ctx, text); err != nil {
		return err
	}
	found, err = c.look(ctx, tx)
	if err == nil && !found.complete() {
		err = errors.New("the table is not what it was made to be")
	}
	return err
}

// look finds the table that claims find. That it would not do is a *fence.FieldError: triggers that forbid a DELETE are not put
// on the table of somebody else.
func (c config) look(ctx context.Context, tx *sql.Tx) (table, error) {
	var t table
	var schema string
	err := ask(ctx, tx, c.form(), &t.there, &schema, &t.kind, &t.persistence, &t.related, &t.columns, &t.collated, &t.keyed, &t.triggers)
	if err != nil {
		return t, err
	}
	if t.schema, err = unhex(schema); err != nil {
		return t, err
	}
	if problem := t.problem(); t.there && problem != "" {
		return t, &fence.FieldError{Field: "Table", Value: c.name(), Problem: problem}
	}
	return t, nil
}
