package scenario_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/store"
)

// makeGolden writes the directories of a level, as this binary does, that are not there yet.
func makeGolden(t *testing.T, level string) {
	folder := filepath.Join("testdata", level)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	writeGoldenMember(t, dir, goldenLevels[level])
	keepGolden(t, folder, "member", dir)
	was, err := quorumlock.Recover(context.Background(), goldenConfig(dir), quorumlock.RecoverOptions{GiveUp: "golden-cluster"})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(was)
	s, err := store.Open(context.Background(), store.Options{Dir: dir, Cluster: "golden"}) // sweeps what was given up
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	keepGolden(t, folder, "recovered", dir)
}

func keepGolden(t *testing.T, folder, name, dir string) {
	t.Helper()
	packed, text := filepath.Join(folder, name+".tar.gz"), filepath.Join(folder, name+".txt")
	if _, err := os.Stat(packed); !errors.Is(err, fs.ErrNotExist) {
		return
	}
	printed, _ := goldenPrint(t, dir, goldenOps[filepath.Base(folder)])
	pack(t, dir, packed)
	if err := os.WriteFile(text, []byte(printed), 0o644); err != nil {
		t.Fatal(err)
	}
}

// pack leaves out the lock file, which tells of this machine and means nothing elsewhere.
func pack(t *testing.T, dir, to string) {
	t.Helper()
	var packed bytes.Buffer
	zip, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	archive := tar.NewWriter(zip)
	err = fs.WalkDir(os.DirFS(dir), ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == "LOCK" || path == "." {
			return err
		}
		h := &tar.Header{Name: path, Mode: 0o700, Typeflag: tar.TypeDir}
		if e.IsDir() {
			return archive.WriteHeader(h)
		}
		content, err := os.ReadFile(filepath.Join(dir, path))
		if err != nil {
			return err
		}
		h.Typeflag, h.Mode, h.Size = tar.TypeReg, 0o600, int64(len(content))
		if err := archive.WriteHeader(h); err != nil {
			return err
		}
		_, err = archive.Write(content)
		return err
	})
	if err := errors.Join(err, archive.Close(), zip.Close(), os.WriteFile(to, packed.Bytes(), 0o644)); err != nil {
		t.Fatal(err)
	}
}

func unpack(t *testing.T, from, dir string) {
	t.Helper()
	f, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zip, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	archive := tar.NewReader(zip)
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		if !filepath.IsLocal(h.Name) {
			t.Fatalf("%s lies outside", h.Name)
		}
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, 0o700)
		} else {
			var content []byte
			if content, err = io.ReadAll(archive); err == nil {
				err = os.WriteFile(path, content, 0o600)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
