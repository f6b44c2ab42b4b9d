//go:build unix

package servertest

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/servers"
)

func TestRedis(t *testing.T) {
	s := Redis(t)
	answers(t, s)
	if err := s.Freeze(); err != nil {
		t.Fatal(err)
	}
	if err := s.Thaw(); err != nil {
		t.Fatal(err)
	}
	answers(t, s)
	s.Kill()
	silent(t, s)
	s.Stop() // does no harm
}

func TestRedisThatCannotStart(t *testing.T) {
	Redis(t) // it is installed
	if _, err := servers.Redis(context.Background(), filepath.Join(t.TempDir(), "missing")); err == nil {
		t.Error("started in a directory that is not there")
	}
}

func TestPostgres(t *testing.T) {
	s := Postgres(t)
	answers(t, s.Server)
	if err := s.Freeze(); err != nil {
		t.Fatal(err)
	}
	s.Stop() // a frozen one too
	silent(t, s.Server)
	if err := s.Restart(context.Background()); err != nil {
		t.Fatal(err)
	}
	answers(t, s.Server)
	s.Kill()
	silent(t, s.Server)
}

func answers(t *testing.T, s *servers.Server) {
	t.Helper()
	conn, err := net.DialTimeout("tcp", s.Addr, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}

func silent(t *testing.T, s *servers.Server) {
	t.Helper()
	select {
	case <-s.Done():
	default:
		t.Error("it has not ended")
	}
	if conn, err := net.DialTimeout("tcp", s.Addr, 5*time.Second); err == nil {
		conn.Close()
		t.Error("something answers on its address")
	}
}

// Only a program that is missing may be a reason to skip.
func TestMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := servers.Redis(context.Background(), t.TempDir())
	var missing *servers.MissingError
	if !errors.As(err, &missing) || missing.Package != "redis-server" {
		t.Errorf("without redis-server: %v", err)
	}
}
