//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/examples/deploy/internal/settings"
	"github.com/quorumlock/quorumlock/internal/demokit"
)

// asService in the environment makes the test program the service itself.
const asService = "DEPLOY_TEST_AS_SERVICE"

func TestMain(m *testing.M) {
	if os.Getenv(asService) != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// pod is one instance, as whoever deploys it sees it.
type pod struct {
	name string
	http string
	cmd  *exec.Cmd
	log  demokit.Tail
}

// pods starts instances of one deployment.
type pods struct {
	launcher *demokit.Launcher
	addrs    []string // of the first ones
	dir      string   // "" for none
}

func newPods(t *testing.T, dir string) *pods {
	t.Helper()
	addrs, err := demokit.FreeAddrs(3)
	if err != nil {
		t.Fatal(err)
	}
	p := &pods{launcher: demokit.NewLauncher(), addrs: addrs, dir: dir}
	t.Cleanup(p.launcher.Close)
	return p
}

func (p *pods) start(t *testing.T, name, addr string) *pod {
	t.Helper()
	web, err := demokit.FreeAddrs(1)
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := strings.Cut(addr, ":")
	i := &pod{name: name, http: web[0], cmd: exec.Command(os.Args[0])}
	i.cmd.Env = append(os.Environ(), asService+"=1",
		settings.Cluster+"=orders", settings.Name+"="+name, settings.IP+"=127.0.0.1", settings.Port+"="+port,
		settings.Join+"="+strings.Join(p.addrs, ","), settings.Expect+"=3", settings.HTTP+"="+i.http)
	if p.dir != "" {
		i.cmd.Env = append(i.cmd.Env, settings.Dir+"="+filepath.Join(p.dir, name))
	}
	i.cmd.Stderr = &i.log
	if err := p.launcher.Start(i.cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if i.cmd.ProcessState == nil {
			_ = i.cmd.Process.Kill()
			_ = i.cmd.Wait()
		}
	})
	return i
}

// ask gives what the instance answers, and an error if it is not 200.
func (i *pod) ask(ctx context.Context, method, path string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+i.http+path, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s%s: %s: %s", i.name, path, resp.Status, body)
	}
	return strings.TrimSpace(string(body)), err
}

// becomesReady waits as the readiness probe does.
func (i *pod) becomesReady(t *testing.T) {
	t.Helper()
	ctx, cancel := demokit.Within(t.Context(), 30*time.Second, i.name+" is not ready")
	defer cancel()
	if err := demokit.Poll(ctx, func() error { _, err := i.ask(ctx, http.MethodGet, "/readyz"); return err }); err != nil {
		t.Fatalf("%v\n%s", err, i.log.String())
	}
}

// locks takes a lock through the instance.
func (i *pod) locks(t *testing.T) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	text, err := i.ask(ctx, http.MethodPost, "/locks/k")
	if err != nil {
		t.Fatal(err)
	}
	token, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// terminate ends the instance as a deployment does; it must not take the grace period, and be no failure. Where there is a
// quorum it ends in order.
func (i *pod) terminate(t *testing.T, quorum bool) {
	t.Helper()
	if err := i.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(30*time.Second, func() { _ = i.cmd.Process.Kill() })
	defer late.Stop()
	if err := i.cmd.Wait(); err != nil {
		t.Errorf("%s ended with %v\n%s", i.name, err, i.log.String())
	}
	if log := i.log.String(); quorum && strings.Contains(log, notInOrder) {
		t.Errorf("%s\n%s", i.name, log)
	}
}

// TestThreeProcesses: instances found each other before they are ready, are replaced one by one, without directories by
// others of new names and addresses, and with them by themselves; and tokens rise all the while.
func TestThreeProcesses(t *testing.T) {
	for name, dir := range map[string]string{"in memory": "", "with directories": t.TempDir()} {
		t.Run(name, func(t *testing.T) {
			defer http.DefaultClient.CloseIdleConnections()
			p := newPods(t, dir)
			var running []*pod
			for i, addr := range p.addrs {
				running = append(running, p.start(t, fmt.Sprint("orders-", i), addr))
			}
			last := 0
			lock := func(i *pod) {
				token := i.locks(t)
				if token <= last {
					t.Errorf("%s: token %d after %d", i.name, token, last)
				}
				last = token
			}
			for _, i := range running {
				i.becomesReady(t)
				lock(i)
			}
			for k, old := range running {
				var fresh *pod
				if dir == "" {
					addrs, err := demokit.FreeAddrs(1)
					if err != nil {
						t.Fatal(err)
					}
					fresh = p.start(t, fmt.Sprint("orders-", 3+k), addrs[0])
					fresh.becomesReady(t)
					p.addrs[k] = addrs[0] // as the name resolves from now on
					old.terminate(t, true)
				} else {
					old.terminate(t, true)
					fresh = p.start(t, old.name, p.addrs[k])
					fresh.becomesReady(t)
				}
				lock(fresh)
				running[k] = fresh
			}
			for _, i := range running {
				if _, err := i.ask(t.Context(), http.MethodGet, "/healthz"); err != nil {
					t.Error(err)
				}
			}
			for k, i := range running {
				i.terminate(t, dir == "" || k == 0) // those that leave take their votes along
			}
		})
	}
}

// An instance alone is alive and not ready: the two that are missing must come, and starting it anew would not help. And
// it ends in time.
func TestOneOfThreeIsAliveAndNotReady(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	p := newPods(t, "")
	alone := p.start(t, "orders-0", p.addrs[0])
	ctx, cancel := demokit.Within(t.Context(), 30*time.Second, "not alive")
	defer cancel()
	if err := demokit.Poll(ctx, func() error { _, err := alone.ask(ctx, http.MethodGet, "/healthz"); return err }); err != nil {
		t.Fatal(err)
	}
	if text, err := alone.ask(ctx, http.MethodGet, "/readyz"); err == nil {
		t.Errorf("ready: %s", text)
	}
	alone.terminate(t, true)
}

func TestBadSettingsEndTheProcess(t *testing.T) {
	var field *quorumlock.FieldError
	env := map[string]string{settings.Cluster: "orders", settings.IP: "10.0.0.1", settings.Expect: "3"}
	log := slog.New(slog.NewTextHandler(&bytes.Buffer{}, nil))
	err := run(t.Context(), func(name string) string { return env[name] }, log)
	if !errors.As(err, &field) || field.Field != "Config.AllowPlaintext" {
		t.Errorf("beyond loopback without TLS: %v", err)
	}
	env[settings.Expect] = "some"
	if err := run(t.Context(), func(name string) string { return env[name] }, log); err == nil || !strings.Contains(err.Error(), settings.Expect) {
		t.Errorf("ended with %v", err)
	}
}
