//go:build unix

// Package servertest starts private database servers for tests.
package servertest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/quorumlock/quorumlock/internal/servers"
)

// Required is the environment variable that turns a server which is not installed from a skipped test into a failed one. CI sets it.
const Required = "QUORUMLOCK_SERVERS_REQUIRED"

// Redis starts a Redis server that ends with the test.
func Redis(t testing.TB, settings ...string) *servers.Server {
	t.Helper()
	s, err := servers.Redis(context.Background(), t.TempDir(), settings...)
	Need(t, err)
	t.Cleanup(s.Stop)
	return s
}

// Postgres starts a PostgreSQL server that ends with the test.
func Postgres(t testing.TB, settings ...string) *servers.PostgresServer {
	t.Helper()
	s, err := servers.Postgres(context.Background(), filepath.Join(reachable(t), "data"), settings...)
	Need(t, err)
	t.Cleanup(func() { s.Stop() })
	return s
}

// Replica starts a standby of p that ends with the test.
func Replica(t testing.TB, p *servers.PostgresServer, settings ...string) *servers.PostgresServer {
	t.Helper()
	s, err := p.Replica(context.Background(), filepath.Join(reachable(t), "data"), settings...)
	Need(t, err)
	t.Cleanup(func() { s.Stop() })
	return s
}

// PgBouncer starts a pooler in front of p that ends with the test.
func PgBouncer(t testing.TB, p *servers.PostgresServer, settings ...string) *servers.PgBouncerServer {
	t.Helper()
	s, err := servers.PgBouncer(context.Background(), filepath.Join(reachable(t), "pooler"), p, settings...)
	Need(t, err)
	t.Cleanup(s.Stop)
	return s
}

// reachable is a temporary directory that every user may pass through: the server may run as another user than the test, whose own directories are closed to others.
func reachable(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "postgres")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Need skips the test if err is that a server is not installed, unless it is required; any other error fails the test.
func Need(t testing.TB, err error) {
	t.Helper()
	var missing *servers.MissingError
	switch {
	case err == nil:
	case errors.As(err, &missing) && os.Getenv(Required) == "":
		t.Skip(err)
	default:
		t.Fatal(err)
	}
}
