//go:build unix

package servers

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// PostgresServer is a PostgreSQL server. Its superuser is "postgres", with a password that only DSN tells.
type PostgresServer struct {
	*Server
	dir      string
	password string
}

// debianBins is where Debian keeps the programs of each version.
const debianBins = "/usr/lib/postgresql/*/bin"

// Postgres makes a database cluster in dir, which must be empty or not there, and starts a server on it with the settings given ("fsync=off"). PostgreSQL refuses to run as root, so
// there it runs as the user "postgres", or else "nobody", whom dir then belongs to.
func Postgres(ctx context.Context, dir string, settings ...string) (*PostgresServer, error) {
	p := &PostgresServer{dir: dir, password: rand.Text()}
	if err := p.initialize(ctx); err != nil {
		return nil, err
	}
	return p, p.start(ctx, settings)
}

// Restart starts a server that has ended again, on the same directory and another port.
func (p *PostgresServer) Restart(ctx context.Context, settings ...string) error {
	return p.start(ctx, settings)
}

// DSN is the URL of a database of the server, without TLS.
func (p *PostgresServer) DSN(database string) string { return p.DSNAt(p.Addr, database) }

// DSNAt is the same by way of another address, that of a pooler or a proxy.
func (p *PostgresServer) DSNAt(addr, database string) string {
	u := url.URL{Scheme: "postgres", User: url.UserPassword("postgres", p.password), Host: addr, Path: database, RawQuery: "sslmode=disable"}
	return u.String()
}

// Replica makes a copy of the server in dir, which must be empty or not there, and starts it as a standby that follows by streaming replication. SELECT pg_promote() makes it a server of
// its own.
func (p *PostgresServer) Replica(ctx context.Context, dir string, settings ...string) (*PostgresServer, error) {
	r := &PostgresServer{dir: dir, password: p.password}
	as, err := r.own(dir)
	if err != nil {
		return nil, err
	}
	copying, err := r.command(ctx, as, "pg_basebackup", "-D", dir, "-d", p.DSN("postgres"), "-R", "-X", "stream", "-c", "fast", "--no-sync")
	if err != nil {
		return nil, err
	}
	if text, err := copying.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("pg_basebackup: %w: %s", err, text)
	}
	return r, r.start(ctx, settings)
}

func (p *PostgresServer) initialize(ctx context.Context) error {
	as, err := p.own(p.dir)
	if err != nil {
		return err
	}
	secret := filepath.Join(filepath.Dir(p.dir), filepath.Base(p.dir)+".password")
	if err := os.WriteFile(secret, []byte(p.password), 0o600); err != nil {
		return err
	}
	defer os.Remove(secret)
	if as != nil {
		if err := os.Chown(secret, int(as.Uid), int(as.Gid)); err != nil {
			return err
		}
	}
	out, err := p.command(ctx, as, "initdb", "-D", p.dir, "-U", "postgres", "-A", "scram-sha-256", "--pwfile", secret, "-E", "UTF8", "--locale", "C", "--no-sync")
	if err != nil {
		return err
	}
	if text, err := out.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, text)
	}
	return nil
}

func (p *PostgresServer) start(ctx context.Context, settings []string) error {
	as, err := p.own(p.dir)
	if err != nil {
		return err
	}
	addr, err := freeAddr()
	if err != nil {
		return err
	}
	_, port, _ := net.SplitHostPort(addr)
	args := []string{"-D", p.dir, "-c", "listen_addresses=127.0.0.1", "-c", "port=" + port, "-c", "unix_socket_directories="}
	for _, s := range settings {
		args = append(args, "-c", s)
	}
	// The server outlives ctx, which bounds the start.
	cmd, err := p.command(context.WithoutCancel(ctx), as, "postgres", args...)
	if err != nil {
		return err
	}
	p.Server, err = run(ctx, cmd, addr, syscall.SIGINT, func(ctx context.Context) error { return p.ready(ctx, addr) }) // SIGINT: end without waiting for clients
	return err
}

// ready asks what listens on addr whether it accepts connections.
func (p *PostgresServer) ready(ctx context.Context, addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	as, err := p.own(p.dir)
	if err != nil {
		return err
	}
	asking, err := p.command(ctx, as, "pg_isready", "-q", "-h", host, "-p", port)
	if err != nil {
		return err
	}
	return asking.Run()
}

// command runs a program of PostgreSQL as the user given, in a directory that this user may be in.
func (p *PostgresServer) command(ctx context.Context, as *syscall.Credential, program string, args ...string) (*exec.Cmd, error) {
	path, err := find(program, "postgresql", debianBins)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = p.dir
	if as != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	}
	return cmd, nil
}

// own makes dir, and gives it to the user as whom the server is to run; nil if that is the present one.
func (p *PostgresServer) own(dir string) (*syscall.Credential, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if os.Geteuid() != 0 {
		return nil, nil
	}
	as, err := unprivileged()
	if err != nil {
		return nil, err
	}
	return as, os.Chown(dir, int(as.Uid), int(as.Gid))
}

func unprivileged() (*syscall.Credential, error) {
	u, err := user.Lookup("postgres")
	if err != nil {
		if u, err = user.Lookup("nobody"); err != nil {
			return nil, fmt.Errorf("no user to run PostgreSQL as: %w", err)
		}
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}
