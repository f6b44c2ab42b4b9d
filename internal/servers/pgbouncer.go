//go:build unix

package servers

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// PgBouncerServer is a connection pooler in front of a PostgreSQL server.
type PgBouncerServer struct {
	*Server
	postgres *PostgresServer
}

// PgBouncer starts a pooler in transaction mode in front of p, with its files in dir, which must be empty or not there.
// Settings are lines of its configuration ("default_pool_size = 2"). It refuses to run as root, so there it runs as
// PostgreSQL does.
func PgBouncer(ctx context.Context, dir string, p *PostgresServer, settings ...string) (*PgBouncerServer, error) {
	program, err := find("pgbouncer", "pgbouncer")
	if err != nil {
		return nil, err
	}
	as, err := p.own(dir)
	if err != nil {
		return nil, err
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	file, err := writeBouncerFiles(dir, addr, p, settings)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, file)
	cmd.Dir = dir
	if as != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	}
	s, err := run(ctx, cmd, addr, syscall.SIGTERM, func(ctx context.Context) error { return p.ready(ctx, addr) })
	if err != nil {
		return nil, err
	}
	return &PgBouncerServer{Server: s, postgres: p}, nil
}

// DSN is the URL of a database of the server behind, by way of the pooler.
func (b *PgBouncerServer) DSN(database string) string { return b.postgres.DSNAt(b.Addr, database) }

// writeBouncerFiles writes the configuration and the list of users, and gives the path of the first.
func writeBouncerFiles(dir, addr string, p *PostgresServer, settings []string) (string, error) {
	host, port, err := net.SplitHostPort(p.Addr)
	if err != nil {
		return "", err
	}
	listenHost, listenPort, err := net.SplitHostPort(addr)
	if err != nil {
		return "", err
	}
	users, file := filepath.Join(dir, "users"), filepath.Join(dir, "pgbouncer.ini")
	lines := append([]string{
		"[databases]",
		fmt.Sprintf("* = host=%s port=%s", host, port),
		"[pgbouncer]",
		"listen_addr = " + listenHost, "listen_port = " + listenPort, "unix_socket_dir =",
		"auth_type = scram-sha-256", "auth_file = " + users,
		"pool_mode = transaction",
		"ignore_startup_parameters = extra_float_digits", // which lib/pq sends
	}, settings...)
	// Readable by the user it runs as, in a directory that only that user may enter.
	if err := os.WriteFile(users, fmt.Appendf(nil, "%q %q\n", "postgres", p.password), 0o644); err != nil {
		return "", err
	}
	return file, os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o644)
}
