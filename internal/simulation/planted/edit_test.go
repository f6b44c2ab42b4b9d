package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestApply(t *testing.T) {
	for _, c := range []struct {
		name           string
		text, old, new string
		want           string
		err            error
	}{
		{"once", "a b c", "b", "x", "a x c", nil},
		{"over lines", "a\n\tb\nc\n", "\tb\nc", "\td", "a\n\td\n", nil},
		{"taken out", "a b c", " b", "", "a c", nil},
		{"the new text holds the old one", "a b c", "b", "bb", "a bb c", nil},
		{"not there", "a b c", "d", "x", "", errNotThere},
		{"other white space", "a  b", "a b", "x", "", errNotThere},
		{"twice", "a b b", "b", "x", "", errTwice},
		{"changes nothing", "a b", "b", "b", "", errNothing},
		{"replaces nothing", "a b", "", "b", "", errNothing},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := edit{old: c.old, new: c.new}.apply(c.text)
			if got != c.want || !errors.Is(err, c.err) {
				t.Errorf("%q, %v; want %q, %v", got, err, c.want, c.err)
			}
		})
	}
}

func TestPlantAndRestore(t *testing.T) {
	root := t.TempDir()
	file := filepath.Join(root, "sub", "a.go")
	if err := os.Mkdir(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, file, "package a // right\n")
	restore, err := edit{file: "sub/a.go", old: "right", new: "wrong"}.plant(root)
	if err != nil {
		t.Fatal(err)
	}
	if got := read(t, file); got != "package a // wrong\n" {
		t.Errorf("planted: %q", got)
	}
	if err := restore(); err != nil {
		t.Fatal(err)
	}
	if got := read(t, file); got != "package a // right\n" {
		t.Errorf("restored: %q", got)
	}
}

func TestPlantLeavesAFileAloneThatItDoesNotFit(t *testing.T) {
	root := t.TempDir()
	file := filepath.Join(root, "a.go")
	write(t, file, "package a\n")
	if _, err := (edit{file: "a.go", old: "gone", new: "x"}).plant(root); !errors.Is(err, errNotThere) {
		t.Errorf("old text gone: %v", err)
	}
	if _, err := (edit{file: "b.go", old: "gone", new: "x"}).plant(root); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("file gone: %v", err)
	}
	if got := read(t, file); got != "package a\n" {
		t.Errorf("left behind: %q", got)
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
