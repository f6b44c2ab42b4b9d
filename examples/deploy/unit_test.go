package main

import (
	"bufio"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/examples/deploy/internal/settings"
)

// unit reads systemd/orders.service: its directives by name, and the environment that it sets.
func unit(t *testing.T) (directives, env map[string]string) {
	t.Helper()
	f, err := os.Open("systemd/orders.service")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	directives, env = make(map[string]string), make(map[string]string)
	for lines := bufio.NewScanner(f); lines.Scan(); {
		name, value, found := strings.Cut(lines.Text(), "=")
		switch {
		case !found || strings.HasPrefix(name, "#"):
		case name == "Environment":
			name, value, _ = strings.Cut(value, "=")
			env[name] = value
		default:
			directives[name] = value
		}
	}
	return directives, env
}

// TestUnit: the unit sets what the service reads, stops it as the service expects, and gives it the time that it takes.
func TestUnit(t *testing.T) {
	directives, env := unit(t)
	for name := range env {
		if !slices.Contains(settings.Names(), name) {
			t.Errorf("the service does not read %s", name)
		}
	}
	if env[settings.TLSDir] == "" || env[settings.TLSName] == "" {
		t.Error("without TLS")
	}
	delete(env, settings.TLSDir) // not here
	env[settings.IP] = "10.0.0.5"
	s, err := settings.Read(func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	if !s.Returns || !strings.HasPrefix(s.Node.Dir, "/var/lib/"+directives["StateDirectory"]+"/") {
		t.Errorf("directory %s, kept: %s", s.Node.Dir, directives["StateDirectory"])
	}
	if s.Node.Expect < 3 || len(s.Node.Join) == 0 {
		t.Errorf("Expect %d, joins by %q", s.Node.Expect, s.Node.Join)
	}
	// What systemd takes for seconds is written without a unit.
	patience, err := time.ParseDuration(directives["TimeoutStopSec"] + "s")
	if end := settings.RequestBound + s.StopBound; err != nil || patience <= end {
		t.Errorf("killed after %v (%v), the end may take %v", patience, err, end)
	}
	for name, want := range map[string]string{"KillSignal": "SIGTERM", "KillMode": "mixed", "Restart": "on-failure", "StartLimitIntervalSec": "0"} {
		if directives[name] != want {
			t.Errorf("%s=%s, want %s", name, directives[name], want)
		}
	}
}
