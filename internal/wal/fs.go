package wal

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// FS is the directory a log lives in. It holds nothing else.
type FS interface {
	// List returns the names of all files.
	List() ([]string, error)
	// Create makes a file, or empties one that exists.
	Create(name string) (File, error)
	// Open opens a file to read and write.
	Open(name string) (File, error)
	// Rename replaces to, if it exists. Neither is open.
	Rename(from, to string) error
	Remove(name string) error
	// Sync makes what Create, Rename and Remove did durable.
	Sync() error
}

// File is a file of an FS.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Size() (int64, error)
	// Sync makes durable what was written. It may leave out what is not needed to read it back.
	Sync() error
}

// Dir is the FS of a directory that exists.
func Dir(path string) FS { return dir(path) }

type dir string

func (d dir) path(name string) string { return filepath.Join(string(d), name) }

func (d dir) List() ([]string, error) {
	entries, err := os.ReadDir(string(d))
	if err != nil {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}

func (d dir) Create(name string) (File, error) {
	return d.open(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
}

func (d dir) Open(name string) (File, error) { return d.open(name, os.O_RDWR) }

func (d dir) open(name string, flag int) (File, error) {
	f, err := os.OpenFile(d.path(name), flag, 0o600)
	if err != nil {
		return nil, err
	}
	return file{f}, nil
}

func (d dir) Rename(from, to string) error { return os.Rename(d.path(from), d.path(to)) }

func (d dir) Remove(name string) error {
	err := os.Remove(d.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Sync has nothing to call on Windows, and needs nothing there.
func (d dir) Sync() error {
	if runtime.GOOS == "windows" {
		return nil
	}
	f, err := os.Open(string(d))
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

type file struct{ *os.File }

func (f file) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (f file) Sync() error { return syncData(f.File) }
