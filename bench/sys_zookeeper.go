//go:build unix

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/quorumlock/quorumlock/internal/demokit"
	"github.com/quorumlock/quorumlock/internal/servers"
)

// ZooKeeper runs as three processes of Debian's package, with its default of fsync before each answer. Its clients use the lock recipe of the Go client; a client is a connection.
var zooKeeper = &system{key: "zookeeper", name: "ZooKeeper, 3 nodes", keeps: "majority, fsync", warm: 4 * time.Second, serve: serveZooKeeper, open: openZooKeeper}

const (
	zooKeeperJar   = "/usr/share/java/zookeeper.jar" // names the others that it needs
	zooKeeperPath  = "/etc/zookeeper/conf:" + zooKeeperJar
	zooKeeperNodes = 3
)

func serveZooKeeper(ctx context.Context, l *demokit.Launcher, dir string) (*service, error) {
	java, err := exec.LookPath("java")
	if err != nil {
		return nil, &servers.MissingError{Program: "java", Package: "default-jre-headless"}
	}
	if _, err := os.Stat(zooKeeperJar); err != nil {
		return nil, &servers.MissingError{Program: "zookeeper.jar", Package: "zookeeper"}
	}
	addrs, err := demokit.FreeAddrs(3 * zooKeeperNodes)
	if err != nil {
		return nil, err
	}
	var nodes []*exec.Cmd
	s := &service{addrs: addrs[:zooKeeperNodes], stop: func() {
		for _, c := range nodes {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	}}
	s.leader = func(ctx context.Context) (int, error) { return zooKeeperLeader(ctx, s.addrs) }
	for i := range zooKeeperNodes {
		conf, err := zooKeeperConf(dir, i, addrs)
		if err != nil {
			s.stop()
			return nil, err
		}
		c := exec.Command(java, "-Xmx1g", "-cp", zooKeeperPath, "-Dzookeeper.root.logger=WARN,CONSOLE", "-Dzookeeper.admin.enableServer=false", "-Dzookeeper.4lw.commands.whitelist=srvr",
			"org.apache.zookeeper.server.quorum.QuorumPeerMain", conf)
		if err := l.Start(c); err != nil {
			s.stop()
			return nil, err
		}
		nodes = append(nodes, c)
		s.pids = append(s.pids, c.Process.Pid)
	}
	ctx, cancel := demokit.Within(ctx, time.Minute, "no ZooKeeper")
	defer cancel()
	if err := demokit.Poll(ctx, func() error { _, err := s.leader(ctx); return err }); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

func zooKeeperConf(dir string, i int, addrs []string) (string, error) {
	data, err := subdirectory(dir, fmt.Sprint("zookeeper-", i))
	if err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(addrs[i])
	if err != nil {
		return "", err
	}
	text := fmt.Sprintf("tickTime=500\ninitLimit=20\nsyncLimit=10\nmaxClientCnxns=0\nmaxSessionTimeout=60000\ndataDir=%s\nclientPort=%s\n", data, port)
	for j := range zooKeeperNodes {
		peer := addrs[zooKeeperNodes+j]
		_, election, err := net.SplitHostPort(addrs[2*zooKeeperNodes+j])
		if err != nil {
			return "", err
		}
		text += fmt.Sprintf("server.%d=%s:%s\n", j+1, peer, election)
	}
	if err := os.WriteFile(filepath.Join(data, "myid"), fmt.Append(nil, i+1), 0o600); err != nil {
		return "", err
	}
	conf := filepath.Join(data, "zoo.cfg")
	return conf, os.WriteFile(conf, []byte(text), 0o600)
}

// zooKeeperLeader asks each server for its role; all must have one.
func zooKeeperLeader(ctx context.Context, addrs []string) (int, error) {
	leader := -1
	for i, addr := range addrs {
		mode, err := zooKeeperMode(ctx, addr)
		if err != nil {
			return 0, err
		}
		if mode == "leader" {
			leader = i
		}
	}
	if leader < 0 {
		return 0, errors.New("ZooKeeper has no leader")
	}
	return leader, nil
}

func zooKeeperMode(ctx context.Context, addr string) (string, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(2 * time.Second))
	if _, err := conn.Write([]byte("srvr")); err != nil {
		return "", err
	}
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		if mode, ok := strings.CutPrefix(lines.Text(), "Mode: "); ok {
			return mode, nil
		}
	}
	return "", fmt.Errorf("%s has no role", addr)
}

type zooKeeperPlace struct{ addrs []string }

func openZooKeeper(_ context.Context, p placing) (place, error) {
	return zooKeeperPlace{p.Servers}, nil
}

func (zooKeeperPlace) Close() error { return nil }

// silent drops what the client has to say of each connection.
type silent struct{}

func (silent) Printf(string, ...any) {}

func (p zooKeeperPlace) client(ctx context.Context, ttl time.Duration) (client, error) {
	c, events, err := zk.Connect(p.addrs, ttl, zk.WithLogger(silent{}))
	if err != nil {
		return nil, err
	}
	for {
		select {
		case e := <-events:
			if e.State == zk.StateHasSession {
				go func() {
					for range events { // it ends with the connection
					}
				}()
				return &zooKeeperClient{c}, nil
			}
		case <-ctx.Done():
			c.Close()
			return nil, context.Cause(ctx)
		}
	}
}

type zooKeeperClient struct{ c *zk.Conn }

// lock waits without heed of ctx, for which the recipe has no room; Close ends it.
func (c *zooKeeperClient) lock(ctx context.Context, name string) (func(context.Context) error, error) {
	l := zk.NewLock(c.c, "/"+name, zk.WorldACL(zk.PermAll))
	if err := l.Lock(); err != nil {
		return nil, errors.Join(err, demokit.Poll(ctx, func() error { return c.sweep("/" + name) }))
	}
	return func(ctx context.Context) error {
		return demokit.Poll(ctx, func() error {
			if err := l.Unlock(); !errors.Is(err, zk.ErrNoNode) { // that is an earlier attempt's success
				return err
			}
			return nil
		})
	}, nil
}

// sweep deletes what a failed attempt of this session has left: the recipe forgets its node after an error, and the next attempt would wait for it as long as the session lives.
func (c *zooKeeperClient) sweep(path string) error {
	children, _, err := c.c.Children(path)
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, child := range children {
		there, stat, err := c.c.Exists(path + "/" + child)
		if err != nil {
			return err
		}
		if !there || stat.EphemeralOwner != c.c.SessionID() {
			continue
		}
		if err := c.c.Delete(path+"/"+child, -1); err != nil && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
	}
	return nil
}

func (c *zooKeeperClient) Close() error {
	c.c.Close()
	return nil
}
