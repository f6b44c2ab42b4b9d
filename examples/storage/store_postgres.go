//go:build unix

package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/quorumlock/quorumlock/fence/pgfence"

	"github.com/quorumlock/quorumlock/internal/demokit"
)

// postgresStore keeps documents, and the grants that it has accepted, in one schema of a PostgreSQL database.
type postgresStore struct {
	*pgfence.Store
	db     *sql.DB
	schema string
}

var _ store = (*postgresStore)(nil)

const (
	connections = 8
	setupBound  = 20 * time.Second
)

// openPostgres makes the schema and its tables. A real service would name tables of its own here and leave the fence's table
// its default name; a demonstration that is let into somebody's database stays in one schema, which dropSchema takes away.
func openPostgres(ctx context.Context, dsn, schema string) (_ *postgresStore, err error) {
	ctx, cancel := demokit.Within(ctx, setupBound, "the tables were not made")
	defer cancel()
	db, err := connect(dsn)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, db.Close())
		}
	}()
	s := &postgresStore{db: db, schema: schema}
	if err := s.migrate(ctx); err != nil {
		return nil, fmt.Errorf("create documents: %w", err)
	}
	s.Store, err = pgfence.New(db, s.table())
	return s, err
}

func connect(dsn string) (*sql.DB, error) {
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	return db, nil
}

func (s *postgresStore) table() pgfence.Option {
	return pgfence.Table(s.schema + "." + pgfence.DefaultTable)
}

func (s *postgresStore) migrate(ctx context.Context) error {
	if _, err := s.db.ExecContext(ctx, "CREATE SCHEMA IF NOT EXISTS "+pgx.Identifier{s.schema}.Sanitize()); err != nil {
		return err
	}
	for _, in := range []section{fenced, unfenced} {
		statement := "CREATE TABLE IF NOT EXISTS " + s.name(in) + " (name text PRIMARY KEY, content bytea NOT NULL)"
		if _, err := s.db.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return pgfence.Migrate(ctx, s.db, s.table())
}

// name is the table of a section as SQL.
func (s *postgresStore) name(in section) string {
	return pgx.Identifier{s.schema, string(in)}.Sanitize()
}

func (s *postgresStore) close() error { return s.db.Close() }

func (s *postgresStore) put(ctx context.Context, in section, name string, content []byte) error {
	exec := s.db.ExecContext
	if in == fenced {
		tx, ok := pgfence.TxFrom(ctx)
		if !ok {
			return errNoStep
		}
		exec = tx.ExecContext
	}
	if content == nil {
		content = []byte{} // nil would be NULL
	}
	_, err := exec(ctx, "INSERT INTO "+s.name(in)+" (name, content) VALUES ($1, $2) "+
		"ON CONFLICT (name) DO UPDATE SET content = EXCLUDED.content", name, content)
	return err
}

func (s *postgresStore) get(ctx context.Context, in section, name string) (content []byte, err error) {
	err = s.db.QueryRowContext(ctx, "SELECT content FROM "+s.name(in)+" WHERE name = $1", name).Scan(&content)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errAbsent
	}
	return content, err
}

// dropSchema takes away all that a run has made in a database.
func dropSchema(ctx context.Context, dsn, schema string) error {
	db, err := connect(dsn)
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, "DROP SCHEMA IF EXISTS "+pgx.Identifier{schema}.Sanitize()+" CASCADE")
	if err != nil {
		err = fmt.Errorf("drop schema %s: %w", schema, err)
	}
	return errors.Join(err, db.Close())
}

// postgresVersion asks a database for a sign of life.
func postgresVersion(ctx context.Context, dsn string) (version string, err error) {
	ctx, cancel := demokit.Within(ctx, setupBound, "no answer of the database")
	defer cancel()
	db, err := connect(dsn)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := db.QueryRowContext(ctx, "SHOW server_version").Scan(&version); err != nil {
		return "", fmt.Errorf("connect: %w", err)
	}
	return version, nil
}
