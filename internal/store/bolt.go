//go:build !wasip1

package store

import (
	"errors"
	"io/fs"
	"os"
	"runtime/debug"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// boltFile is raft-boltdb with its panics contained. bbolt reads through a memory mapping and trusts what it finds: damage shows
// as a failed assertion, or as a memory fault when the file is shorter than it says or the disk cannot deliver a page.
type boltFile struct {
	store *raftboltdb.BoltStore
}

// openBoltFile opens the file, or makes it if fresh. The file is examined first: bbolt walks all pages while it opens, partly on
// a goroutine of its own, where a panic over a damaged page would end the process.
func openBoltFile(path string, fresh bool) (*boltFile, error) {
	if !fresh {
		if err := examineBolt(path); err != nil {
			return nil, &CorruptError{What: path, Err: err}
		}
	}
	b := &boltFile{}
	err := contain(func() (err error) {
		b.store, err = raftboltdb.New(raftboltdb.Options{
			Path: path,
			BoltOptions: &bbolt.Options{
				Timeout:        lockPatience,
				NoFreelistSync: true,
				FreelistType:   bbolt.FreelistMapType,
			},
		})
		return err
	})
	switch {
	case err == nil:
		return b, nil
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, &InUseError{Dir: path}
	case fresh || errors.Is(err, fs.ErrPermission):
		return nil, err
	default:
		return nil, &CorruptError{What: path, Err: err}
	}
}

func examineBolt(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(checkBolt(f), f.Close())
}

// contain runs fn and turns a panic or a memory fault in it into an error.
func contain(fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = corrupt(boltName, "%v", r)
		}
	}()
	return fn()
}

func (b *boltFile) close() error {
	return contain(b.store.Close)
}

func (b *boltFile) FirstIndex() (index uint64, err error) {
	err = contain(func() error { index, err = b.store.FirstIndex(); return err })
	return index, err
}

func (b *boltFile) LastIndex() (index uint64, err error) {
	err = contain(func() error { index, err = b.store.LastIndex(); return err })
	return index, err
}

func (b *boltFile) GetLog(index uint64, out *raft.Log) error {
	return contain(func() error { return b.store.GetLog(index, out) })
}

func (b *boltFile) StoreLog(entry *raft.Log) error {
	return contain(func() error { return b.store.StoreLog(entry) })
}

func (b *boltFile) StoreLogs(entries []*raft.Log) error {
	return contain(func() error { return b.store.StoreLogs(entries) })
}

func (b *boltFile) DeleteRange(from, to uint64) error {
	return contain(func() error { return b.store.DeleteRange(from, to) })
}

func (b *boltFile) Set(key, value []byte) error {
	return contain(func() error { return b.store.Set(key, value) })
}

func (b *boltFile) Get(key []byte) (value []byte, err error) {
	err = contain(func() error { value, err = b.store.Get(key); return err })
	return value, err
}
