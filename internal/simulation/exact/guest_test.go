package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// built is the guest of testdata/chance, and a directory for its translation.
type built struct{ module, cache string }

func build(t *testing.T) built {
	t.Helper()
	dir := t.TempDir()
	b := built{filepath.Join(dir, "chance.wasm"), filepath.Join(dir, "cache")}
	cmd := exec.Command("go", "build", "-o", b.module, "./testdata/chance")
	cmd.Env = append(cmd.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the guest: %v\n%s", err, out)
	}
	return b
}

func (b built) run(t *testing.T, random uint64, args ...string) (stdout string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	g := guest{random: random, env: envFlag{{"NAME", "value"}}, args: append([]string{"guest"}, args...), stdout: &out, stderr: &errs}
	code, err := g.run(t.Context(), b.module, b.cache)
	if err != nil {
		t.Fatal(err)
	}
	if errs.Len() > 0 {
		t.Errorf("on stderr: %s", &errs)
	}
	return out.String(), code
}

func TestGuest(t *testing.T) {
	b := build(t)
	t.Run("same number, same run", b.sameNumberSameRun)
	t.Run("what it sees", b.whatItSees)
	t.Run("how it ends", b.howItEnds)
}

// All that is left to chance depends on the one number alone, and does depend on it.
func (b built) sameNumberSameRun(t *testing.T) {
	first, code := b.run(t, 7)
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
	t.Log(first)
	if again, _ := b.run(t, 7); again != first {
		t.Errorf("not the same again:\n%s", again)
	}
	other, _ := b.run(t, 8)
	was, is := strings.Split(first, "\n"), strings.Split(other, "\n")
	for i, what := range []string{1: "map order", 2: "select order", 3: "random numbers"} {
		if what != "" && was[i] == is[i] {
			t.Errorf("%s does not depend on the number: %q", what, was[i])
		}
	}
}

func (b built) whatItSees(t *testing.T) {
	out, _ := b.run(t, 1)
	for _, want := range []string{"args [guest] environment [NAME=value]\n", "files open /: ", "from 2022-01-01 00:00:00.", " slept 1h0m0."} {
		if !strings.Contains(out, want) {
			t.Errorf("want %q in\n%s", want, out)
		}
	}
}

func (b built) howItEnds(t *testing.T) {
	for arg, want := range map[string]int{"0": 0, "1": 1, "3": 3} {
		if _, code := b.run(t, 1, arg); code != want {
			t.Errorf("exit code %d, want %d", code, want)
		}
	}
	broken := b.module + ".broken"
	if err := os.WriteFile(broken, []byte("no module"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, module := range []string{broken, b.module + ".missing"} {
		if _, err := (guest{}).run(t.Context(), module, ""); err == nil {
			t.Errorf("%s was run", module)
		}
	}
}

func TestEnvFlag(t *testing.T) {
	var e envFlag
	for s, ok := range map[string]bool{"A=b": true, "A=": true, "A": false, "=b": false, "": false} {
		if err := e.Set(s); (err == nil) != ok {
			t.Errorf("%q: %v", s, err)
		}
	}
	if len(e) != 2 {
		t.Errorf("took %v", e)
	}
}
