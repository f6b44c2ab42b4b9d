//go:build unix

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/quorumlock/quorumlock/internal/servers"

	"github.com/quorumlock/quorumlock/internal/demokit"
)

const (
	runBound   = 70 * time.Second
	cleanBound = 10 * time.Second // for what is cleaned up when the rest has ended
)

// runDemo runs everything, and prints the last line if all was as it must be. Whatever ends it, nothing is left behind.
func runDemo(ctx context.Context, o options, stdout io.Writer) (err error) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := demokit.Within(ctx, runBound, "the run did not come to its end")
	defer cancel()
	dir, err := os.MkdirTemp("", "storage-")
	if err != nil {
		return fmt.Errorf("data directories: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	line := demokit.NewTimeline(stdout)
	at, clean, err := o.prepare(ctx, dir, line)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, clean()) }()
	l := demokit.NewLauncher()
	defer l.Close()
	v, err := (&demo{line: line, launcher: l, dir: dir, rounds: o.rounds}).run(ctx, at)
	if err != nil {
		line.Say(demokit.Fatal, "", "failed", "%v", err)
		return err
	}
	line.Print(v.String() + "\n")
	return nil
}

// prepare makes the place where documents are kept; clean takes it away.
func (o options) prepare(ctx context.Context, dir string, line *demokit.Timeline) (_ place, clean func() error, err error) {
	switch {
	case o.embedded:
		line.Say(demokit.Plain, "", "documents", "in a bbolt file")
		return place{file: filepath.Join(dir, "documents.db")}, func() error { return nil }, nil
	case o.private:
		return preparePrivate(ctx, dir, line)
	}
	return prepareSchema(ctx, o.dsn, line)
}

// preparePrivate starts a PostgreSQL server.
func preparePrivate(ctx context.Context, dir string, line *demokit.Timeline) (place, func() error, error) {
	if err := os.Chmod(dir, 0o711); err != nil { // the server may run as another user, who has to get to its own directory
		return place{}, nil, err
	}
	began := time.Now()
	s, err := servers.Postgres(ctx, filepath.Join(dir, "postgres"))
	if err != nil {
		return place{}, nil, fmt.Errorf("start PostgreSQL: %w", err)
	}
	line.Say(demokit.Plain, "", "PostgreSQL", "private server on %s, started in %.1f s", s.Addr, time.Since(began).Seconds())
	at, clean, err := prepareSchema(ctx, s.DSN("postgres"), line)
	if err != nil {
		s.Stop()
		return place{}, nil, err
	}
	return at, func() error {
		defer s.Stop()
		return clean()
	}, nil
}

// prepareSchema chooses a name that nobody has, in a database that answers. The service makes the schema; taking it away is the
// parent's, which outlives the service.
func prepareSchema(ctx context.Context, dsn string, line *demokit.Timeline) (place, func() error, error) {
	version, err := postgresVersion(ctx, dsn)
	if err != nil {
		return place{}, nil, err
	}
	schema := "quorumlock_storage_" + strings.ToLower(rand.Text()[:12])
	line.Say(demokit.Plain, "", "documents", "in PostgreSQL %s, schema %s", version, schema)
	return place{dsn: dsn, schema: schema}, func() error {
		ctx, cancel := demokit.Within(context.Background(), cleanBound, "the schema was not dropped")
		defer cancel()
		return dropSchema(ctx, dsn, schema)
	}, nil
}
