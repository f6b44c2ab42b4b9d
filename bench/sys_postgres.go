//go:build unix

package main

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/quorumlock/quorumlock/internal/demokit"
	"github.com/quorumlock/quorumlock/internal/servers"
)

// PostgreSQL's advisory locks of a session: one connection for each owner, no TTL, no number that rises; what the server forgets at its restart is forgotten.
var postgres = &system{key: "postgres", name: "PostgreSQL, one node", keeps: "nothing", most: 300, serve: servePostgres, open: openPostgres}

func servePostgres(ctx context.Context, _ *demokit.Launcher, dir string) (*service, error) {
	s, err := servers.Postgres(ctx, dir, "max_connections=320")
	if err != nil {
		return nil, err
	}
	return &service{addrs: []string{s.DSN("postgres")}, pids: []int{s.Pid()}, stop: s.Stop}, nil
}

type postgresPlace struct{ dsn string }

func openPostgres(_ context.Context, p placing) (place, error) {
	return postgresPlace{p.Servers[0]}, nil
}

func (postgresPlace) Close() error { return nil }

func (p postgresPlace) client(ctx context.Context, _ time.Duration) (client, error) {
	c, err := pgx.Connect(ctx, p.dsn)
	if err != nil {
		return nil, err
	}
	return &postgresClient{c}, nil
}

type postgresClient struct{ c *pgx.Conn }

func (c *postgresClient) lock(ctx context.Context, name string) (func(context.Context) error, error) {
	if _, err := c.c.Exec(ctx, "SELECT pg_advisory_lock(hashtextextended($1, 0))", name); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		_, err := c.c.Exec(ctx, "SELECT pg_advisory_unlock(hashtextextended($1, 0))", name)
		return err
	}, nil
}

func (c *postgresClient) Close() error { return c.c.Close(context.Background()) }
