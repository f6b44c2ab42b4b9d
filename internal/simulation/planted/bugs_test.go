package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEveryBugApplies makes each edit in a copy of this tree and compiles it: a bug that can not be planted any more would be one that nobody looks for.
func TestEveryBugApplies(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the tree once and a package for each bug")
	}
	root, err := moduleRoot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := plantIn(t.Context(), root, bugs, &options{check: true}, &out); err != nil {
		t.Error(err)
	}
	t.Log(out.String())
}

func TestBugsAreToldInFull(t *testing.T) {
	root, err := moduleRoot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(bugs) != 24 {
		t.Errorf("%d bugs", len(bugs))
	}
	names := make(map[string]bool)
	for _, b := range bugs {
		if names[b.name] || b.name == "" {
			t.Errorf("name %q is used twice, or empty", b.name)
		}
		names[b.name] = true
		if !strings.Contains(b.what, "(I") {
			t.Errorf("%s: %q does not say which guarantee is broken", b.name, b.what)
		}
		if len(b.tests) == 0 {
			t.Errorf("%s: no tests are near", b.name)
		}
		for _, folder := range b.tests {
			if tests, _ := filepath.Glob(filepath.Join(root, filepath.FromSlash(folder), "*_test.go")); len(tests) == 0 {
				t.Errorf("%s: no tests in %s", b.name, folder)
			}
		}
		if strings.HasSuffix(b.edit.file, "_test.go") {
			t.Errorf("%s is a bug of a test", b.name)
		}
		if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(b.edit.file))); err != nil {
			t.Errorf("%s: %v", b.name, err)
		}
	}
}
