//go:build unix

package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/quorumlock/quorumlock"
)

// content is what a command says of a snapshot that is good.
func content(t *testing.T, a answer) snapshotView {
	t.Helper()
	all := objects[snapshotView](t, a.want(t, codeOK).out)
	if len(all) != 1 || all[0].Check != "ok" || all[0].Snapshot == nil {
		t.Fatalf("%s", a.out)
	}
	return all[0]
}

// keyFile holds as many new keys.
func keyFile(t *testing.T, count int) string {
	t.Helper()
	var text strings.Builder
	for range count {
		key := make([]byte, 32)
		_, _ = rand.Read(key)
		text.WriteString(base64.StdEncoding.EncodeToString(key) + "\n")
	}
	path := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// serveS3 is an S3 server in this process, with a bucket named backups; the environment is that of a client.
func serveS3(t *testing.T) (url string) {
	t.Helper()
	backend := s3mem.New()
	if err := backend.CreateBucket("backups"); err != nil {
		t.Fatal(err)
	}
	handler := gofakes3.New(backend, gofakes3.WithLogger(gofakes3.DiscardLog())).Server()
	s := httptest.NewUnstartedServer(handler)
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	s.Start()
	t.Cleanup(func() { s.CloseClientConnections(); s.Close(); http.DefaultClient.CloseIdleConnections() })
	t.Setenv("AWS_ACCESS_KEY_ID", "user")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret of the tests")
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(t.TempDir(), "none"))
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(t.TempDir(), "none"))
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	return s.URL
}

// startOne is an agent on dir, of a cluster of one unless flags say otherwise, and the address that it is reached by.
func startOne(t *testing.T, name, dir string, flags ...string) (addr string, stop func()) {
	t.Helper()
	cmd := program(t, append([]string{"agent", "--json", "--timing", "fast", "--cluster", name, "--expect", "1", "--voters", "1", "--dir", dir, "--log-level", "error"}, flags...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop = func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }
	t.Cleanup(stop)
	var said strings.Builder
	for buf := make([]byte, 4096); !strings.Contains(said.String(), `"ready"`); {
		n, err := out.Read(buf)
		if err != nil {
			t.Fatalf("%v: %s", err, said.String())
		}
		said.Write(buf[:n])
	}
	return objects[agentView](t, said.String())[0].Addr, stop
}

func TestSnapshotCommands(t *testing.T) {
	c := startCluster(t)
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	holder := c.client(t, "orders-1")
	hold, err := quorumlock.NewMutex(holder, "jobs/nightly").Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	sem := quorumlock.NewSemaphore(holder, "gpu", 8)
	if _, err := sem.Acquire(ctx, 2); err != nil {
		t.Fatal(err)
	}
	if err := sem.Resize(ctx, 4); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "orders.qlsnap")
	saved := content(t, c.call(t, "snapshot", "save", "--to", file, "--json"))
	s := saved.Snapshot
	if saved.From != file || s.Cluster != c.name || s.ClusterID != holder.ClusterID() || s.Holds != 2 || s.Limits != 1 || s.Stale || s.Index == 0 || s.TokensUpTo < hold.Token().String() {
		t.Fatalf("%+v", s)
	}

	t.Run("a file is not replaced", func(t *testing.T) {
		before, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		a := c.call(t, "snapshot", "save", "--to", file).want(t, codeFailed)
		after, _ := os.ReadFile(file)
		if !strings.Contains(a.errs, "not replaced") || !bytes.Equal(before, after) {
			t.Errorf("says %s", a.errs)
		}
		if found, _ := os.ReadDir(dir); len(found) != 1 {
			t.Errorf("left behind: %v", found)
		}
		c.call(t, "snapshot", "save", "--to", filepath.Join(dir, "none", "x")).want(t, codeFailed)
	})
	t.Run("what is in a file", func(t *testing.T) {
		for _, command := range []string{"inspect", "verify"} {
			v := content(t, call(t, "snapshot", command, file, "--json"))
			if v.From != file || v.Snapshot.SHA256 != s.SHA256 || v.Snapshot.Index != s.Index {
				t.Errorf("%s: %+v", command, v.Snapshot)
			}
			text := call(t, "snapshot", command, file).want(t, codeOK).out
			for _, word := range []string{s.SHA256, "check     ok", "id        " + s.ClusterID, "state     consistent", "up to " + s.TokensUpTo, "2, and 0 waiting", "of term"} {
				if !strings.Contains(text, word) {
					t.Errorf("%s does not say %q:\n%s", command, word, text)
				}
			}
		}
	})
	t.Run("standard output and input", func(t *testing.T) {
		cmd := program(t, c.flags("snapshot", "save", "--to", "-", "--json")...)
		var told bytes.Buffer
		cmd.Stderr = &told
		bytesOut, err := cmd.Output()
		if err != nil {
			t.Fatal(err, told.String())
		}
		v := objects[snapshotView](t, told.String())
		var out, errs bytes.Buffer
		code := run(ctx, []string{"snapshot", "verify", "-", "--json"}, bytes.NewReader(bytesOut), &out, &errs)
		if code != codeOK || len(v) != 1 || !strings.Contains(out.String(), v[0].Snapshot.SHA256) {
			t.Errorf("exit code %d: %s%s", code, out.String(), errs.String())
		}
	})
	t.Run("encrypted", func(t *testing.T) {
		secret, keys := filepath.Join(dir, "secret.qlsnap"), keyFile(t, 1)
		v := content(t, c.call(t, "snapshot", "save", "--to", secret, "--json", "--key-file", keys))
		if v.Snapshot.KeyID == "" {
			t.Errorf("%+v", v.Snapshot)
		}
		// Keys of several files: all decrypt.
		content(t, call(t, "snapshot", "verify", secret, "--json", "--key-file", keyFile(t, 2), "--key-file", keys))
		a := call(t, "snapshot", "verify", secret, "--json", "--key-file", keyFile(t, 2)).want(t, codeKey)
		if v := objects[snapshotView](t, a.out)[0]; v.Check != "key" || v.Snapshot.Cluster != c.name {
			t.Errorf("%+v", v)
		}
		call(t, "snapshot", "verify", secret).want(t, codeKey)
		call(t, "snapshot", "restore", secret, "--cluster", c.name, "--dir", filepath.Join(t.TempDir(), "x")).want(t, codeKey)
		call(t, "snapshot", "drill", secret).want(t, codeFailed)
		if v := objects[snapshotView](t, call(t, "snapshot", "inspect", secret, "--json").want(t, codeOK).out)[0]; v.Check != "encrypted" || v.Snapshot.SHA256 == "" {
			t.Errorf("%+v", v)
		}
		broken := filepath.Join(t.TempDir(), "broken")
		if err := os.WriteFile(broken, []byte("c2hvcnQ=\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if a := call(t, "snapshot", "verify", secret, "--key-file", broken).want(t, codeUsage); strings.Contains(a.errs, "c2hvcnQ") {
			t.Errorf("a key is shown: %s", a.errs)
		}
	})
	t.Run("a directory", func(t *testing.T) { inStore(t, c, hold, "dir://"+filepath.Join(dir, "store")) })
	t.Run("a bucket", func(t *testing.T) {
		inStore(t, c, hold, "s3://backups/quorumlock", "--s3-endpoint", serveS3(t), "--s3-path-style", "--s3-region", "us-east-1")
	})
	t.Run("usage", func(t *testing.T) {
		t.Setenv("AWS_REGION", "")
		t.Setenv("AWS_DEFAULT_REGION", "")
		t.Setenv("AWS_CONFIG_FILE", filepath.Join(dir, "none"))
		for _, args := range [][]string{
			{"list", file}, {"list", "dir://relative"}, {"list", "ftp://x/y"}, {"verify", "s3://"}, {"verify", "s3://backups/x"}, {"verify", ""},
			{"save", "--to", filepath.Join(dir, "store") + "/", "--key-file", filepath.Join(dir, "none")},
			{"restore", file}, {"restore", file, "--dir", filepath.Join(dir, "x"), "--token-floor", "x"},
		} {
			c.call(t, append([]string{"snapshot"}, args...)...).want(t, codeUsage)
		}
		call(t, "snapshot", "verify", filepath.Join(dir, "none")).want(t, codeFailed)
		call(t, "snapshot", "save", "--cluster", "another", "--join", strings.Join(c.addrs, ","), "--to", filepath.Join(dir, "y")).want(t, codeWrongCluster)
		call(t, "snapshot", "restore", file, "--dir", filepath.Join(dir, "x")).want(t, codeUsage) // which cluster?
	})
	t.Run("bad ones", func(t *testing.T) { badOnes(t, c.name, file) })
	t.Run("drill", func(t *testing.T) { drills(t, c.name, file, s) })
	t.Run("restore", func(t *testing.T) { restores(t, c, file, hold.Token()) })
}

// inStore saves into a store, and finds the newest in it.
func inStore(t *testing.T, c *cluster, hold *quorumlock.Hold, store string, flags ...string) {
	with := func(args ...string) []string { return append(append([]string{"snapshot"}, args...), flags...) }
	call(t, with("verify", store)...).want(t, codeNotHeld) // nothing there yet
	first := content(t, c.call(t, with("save", "--to", store, "--json")...))
	node := c.client(t, "more")
	h, err := quorumlock.NewMutex(node, "more").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Unlock(); err != nil {
		t.Fatal(err)
	}
	second := content(t, c.call(t, with("save", "--to", store, "--json")...))
	if second.Snapshot.Index <= first.Snapshot.Index || second.From == first.From || !strings.HasPrefix(second.From, store+"/"+c.name+".") {
		t.Errorf("%s, %s", first.From, second.From)
	}
	list := objects[storedView](t, call(t, with("list", store, "--json")...).want(t, codeOK).out)
	if len(list) != 2 || !strings.HasSuffix(second.From, list[0].Name) || list[0].Label != c.name || list[0].Size != second.Snapshot.Size || list[1].ClusterID != first.Snapshot.ClusterID ||
		list[0].TokensUpTo != second.Snapshot.TokensUpTo || list[0].Modified == nil {
		t.Errorf("%+v", list)
	}
	aligned(t, call(t, with("list", store, "--cluster", c.name)...).want(t, codeOK).out)
	if out := call(t, with("list", store, "--cluster", "another", "--json")...).want(t, codeOK).out; out != "" {
		t.Errorf("of another cluster: %s", out)
	}
	// The newest by default, by name each.
	if v := content(t, call(t, with("verify", store, "--json")...)); v.Snapshot.SHA256 != second.Snapshot.SHA256 || v.From != second.From {
		t.Errorf("%+v", v)
	}
	if v := content(t, call(t, with("inspect", first.From, "--json")...)); v.Snapshot.SHA256 != first.Snapshot.SHA256 || v.From != first.From {
		t.Errorf("%+v", v)
	}
	call(t, with("verify", store, "--cluster", "another")...).want(t, codeNotHeld)
	call(t, with("verify", first.From, "--cluster", "another")...).want(t, codeForeign)
	call(t, with("drill", store)...).want(t, codeOK)
	c.call(t, with("save", "--to", first.From)...).want(t, codeUsage)
	to := filepath.Join(t.TempDir(), "data")
	a := call(t, with("restore", store, "--cluster", c.name, "--dir", to, "--dry-run", "--json")...).want(t, codeOK)
	if v := objects[restoreView](t, a.out)[0]; !v.DryRun || v.From != second.From || v.ClusterID != "" || v.TokensAbove <= hold.Token().String() {
		t.Errorf("%+v", v)
	}
}

// badOnes are S118: each kind of damage has an exit code of its own, in all commands that read.
func badOnes(t *testing.T, cluster, file string) {
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(good)
	flipped[len(flipped)/2] ^= 4
	dir := t.TempDir()
	for name, bad := range map[string]struct {
		bytes []byte
		code  int
		flags []string
	}{
		"truncated": {good[:len(good)-7], codeTruncated, nil},
		"altered":   {flipped, codeAltered, nil},
		"foreign":   {good, codeForeign, []string{"--cluster", "another"}},
		"newer":     {newerFormat(t, good), codeNewer, nil},
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, bad.bytes, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, command := range []string{"inspect", "verify"} {
			a := call(t, append([]string{"snapshot", command, path, "--json"}, bad.flags...)...).want(t, bad.code)
			if v := objects[snapshotView](t, a.out)[0]; v.Check != name || (v.Snapshot == nil) != (bad.code == codeTruncated || bad.code == codeAltered) {
				t.Errorf("%s: %+v", name, v)
			}
			if e := objects[errorView](t, a.errs)[0]; e.Code != bad.code || e.Advice == "" {
				t.Errorf("%s: %+v", name, e)
			}
		}
		to := filepath.Join(dir, "data-"+name)
		flags := bad.flags
		if flags == nil {
			flags = []string{"--cluster", cluster}
		}
		call(t, append([]string{"snapshot", "restore", path, "--dir", to}, flags...)...).want(t, bad.code)
		if _, err := os.Stat(to); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: something was written: %v", name, err)
		}
		temp := t.TempDir()
		a := call(t, append([]string{"snapshot", "drill", path, "--json", "--temp-dir", temp}, bad.flags...)...).want(t, codeFailed)
		if v := objects[drillView](t, a.out)[0]; v.OK || len(v.Steps) != 2 || v.Steps[0].Step != "verify" || v.Steps[0].OK || !v.Steps[1].OK {
			t.Errorf("%s: %+v", name, v)
		}
		if left, _ := os.ReadDir(temp); len(left) > 0 {
			t.Errorf("%s: the drill left %v", name, left)
		}
	}
	none := filepath.Join(dir, "text")
	if err := os.WriteFile(none, []byte(strings.Repeat("nothing of a snapshot ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	call(t, "snapshot", "inspect", none).want(t, codeForeign)
}

func drills(t *testing.T, cluster, file string, s *contentView) {
	temp := t.TempDir()
	start := time.Now()
	v := objects[drillView](t, call(t, "snapshot", "drill", file, "--json", "--temp-dir", temp).want(t, codeOK).out)[0]
	if took := time.Since(start); took > 20*time.Second || v.QuarantineMS < 60_000 {
		t.Errorf("it took %v, with a quarantine of %d ms", took, v.QuarantineMS)
	}
	var steps []string
	for _, s := range v.Steps {
		if !s.OK || s.Detail == "" {
			t.Errorf("%+v", s)
		}
		steps = append(steps, s.Step)
	}
	if got := strings.Join(steps, " "); got != "verify restore start ids tokens counts quarantine remove" {
		t.Errorf("steps %s", got)
	}
	if !v.OK || v.ClusterID == "" || v.ClusterID == s.ClusterID || v.TokensAbove <= s.TokensUpTo || v.Snapshot.SHA256 != s.SHA256 {
		t.Errorf("%+v", v)
	}
	text := call(t, "snapshot", "drill", file, "--temp-dir", temp, "--cluster", cluster).want(t, codeOK).out
	aligned(t, text[strings.Index(text, "STEP"):])
	if left, _ := os.ReadDir(temp); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// restores takes the way of the worst day: a directory of the file, an agent on it, and nothing granted in the quarantine.
func restores(t *testing.T, c *cluster, file string, old quorumlock.Token) {
	dir := filepath.Join(t.TempDir(), "data")
	dry := objects[restoreView](t, call(t, "snapshot", "restore", file, "--cluster", c.name, "--dir", dir, "--dry-run", "--json").want(t, codeOK).out)[0]
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) || !dry.DryRun || dry.Snapshot.Holds != 2 {
		t.Fatalf("%+v, %v", dry, err)
	}
	// Another name needs to be said.
	call(t, "snapshot", "restore", file, "--cluster", "drill", "--dir", dir).want(t, codeForeign)
	other := filepath.Join(t.TempDir(), "data")
	floor := "4000000000000000"
	renamed := objects[restoreView](t, call(t, "snapshot", "restore", file, "--cluster", "other", "--cluster-from", c.name, "--dir", other, "--token-floor", floor, "--json").want(t, codeOK).out)[0]
	if renamed.TokensAbove < floor || renamed.ServerID == "" {
		t.Errorf("%+v", renamed)
	}
	text := call(t, "snapshot", "restore", file, "--cluster", c.name, "--dir", dir).want(t, codeOK).out
	for _, words := range []string{"2 holds", "no lock is granted for 1m", "with empty directories", "1 semaphore limits", "tokens       above "} {
		if !strings.Contains(text, words) {
			t.Errorf("the report does not say %q:\n%s", words, text)
		}
	}
	again := call(t, "snapshot", "restore", file, "--cluster", c.name, "--dir", dir).want(t, codeUsage)
	if !strings.Contains(again.errs, "empty") {
		t.Errorf("says %s", again.errs)
	}
	// The old cluster is where it was, in silence; this one is started where it can not be met.
	addr, stop := startOne(t, c.name, dir)
	defer stop()
	at := func(args ...string) answer {
		return call(t, append(args, "--cluster", c.name, "--join", addr, "--timing", "fast")...)
	}
	status := objects[statusView](t, at("status", "--json").want(t, codeOK).out)[0]
	if status.ClusterID == c.client(t, "old").ClusterID() || status.State != "ok" {
		t.Errorf("%+v", status)
	}
	for _, l := range objects[lockView](t, at("locks", "--json").want(t, codeOK).out) {
		if l.State != "free" {
			t.Errorf("%+v", l)
		}
	}
	node, err := quorumlock.Open(t.Context(), quorumlock.Config{Cluster: c.name, Name: "new", Join: []string{addr}, Role: quorumlock.RoleClient, Timing: quorumlock.TimingFast})
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := quorumlock.NewMutex(node, "jobs/nightly").TryLock(ctx); !errors.Is(err, quorumlock.ErrQuarantine) {
		t.Errorf("in the quarantine: %v", err)
	}
	info, err := node.Snapshot(ctx, io.Discard)
	if err != nil || info.TokensUpTo <= old || info.Holds != 0 || info.Limits != 1 {
		t.Errorf("%+v, %v after token %v", info, err, old)
	}
}
