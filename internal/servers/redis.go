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
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	return RedisAt(ctx, dir, addr, settings...)
}

// RedisAt is Redis at an address on loopback that the caller chooses: that of a server which has ended, under which its clients still know it.
func RedisAt(ctx context.Context, dir, addr string, settings ...string) (*Server, error) {
	program, err := find("redis-server", "redis-server")
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
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
