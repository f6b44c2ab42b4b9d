//go:build unix

package servers

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"syscall"
)

// Redis starts a Redis server with its files in dir, an empty directory of its own, and the settings given in the form of its command line ("--appendonly", "yes"). Without any
// it keeps everything in memory.
func Redis(ctx context.Context, dir string, settings ...string) (*Server, error) {
	program, err := find("redis-server", "redis-server")
	if err != nil {
		return nil, err
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(addr)
	args := append([]string{"--bind", "127.0.0.1", "--port", port, "--dir", dir, "--save", "", "--daemonize", "no"}, settings...)
	return run(ctx, exec.Command(program, args...), addr, syscall.SIGTERM, func(ctx context.Context) error { return redisReady(ctx, addr) })
}

// redisReady asks a PING. A server that still loads its files answers otherwise.
func redisReady(ctx context.Context, addr string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	answer, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return err
	}
	if strings.TrimSpace(answer) != "+PONG" {
		return fmt.Errorf("redis answers %q", answer)
	}
	return nil
}
