//go:build !wasip1

package store

import (
	"errors"
	"io/fs"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// boltFile is raft-boltdb with its panics contained. bbolt reads through a memory mapping and trusts what it finds: damage shows
// as a failed assertion, or as a memory fault when the file is shorter than it says or the disk cannot deliver a page.
//
// A panic may leave a lock of bbolt's taken for ever, so after one nothing calls bbolt any more. Reads go one at a time, so that
// none of them waits for such a lock. They do not wait for the writer: a follower that catches up reads beyond the cache, and
// would get one entry per fsync. What remains is a write that begins in the very moment in which a read meets a lost meta page.
type boltFile struct {
	store   *raftboltdb.BoltStore
	file    *os.File
	reading sync.Mutex
	broken  atomic.Bool
}

var errBroken = &CorruptError{What: boltName, Err: errors.New("it has failed before")}

// openBoltFile opens the file, or makes it if fresh. The file is examined first: bbolt walks all pages while it opens, partly on
// a goroutine of its own, where a panic over a damaged page would end the process.
func openBoltFile(path string, fresh bool) (*boltFile, error) {
	if !fresh {
		if err := examineBolt(path); err != nil {
			return nil, &CorruptError{What: path, Err: err}
		}
	}
	b := &boltFile{}
	err := b.contain(func() (err error) {
		b.store, err = raftboltdb.New(raftboltdb.Options{
			Path: path,
			BoltOptions: &bbolt.Options{
				Timeout:        lockPatience,
				NoFreelistSync: true,
				FreelistType:   bbolt.FreelistMapType,
				OpenFile: func(name string, flag int, mode os.FileMode) (file *os.File, err error) {
					b.file, err = os.OpenFile(name, flag, mode)
					return b.file, err
				},
			},
		})
		return err
	})
	if err == nil {
		return b, nil
	}
	if b.broken.Load() {
		_ = b.file.Close()
	}
	switch {
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

// contain runs fn and turns a panic or a memory fault in it into an error, and the end of the file's use.
func (b *boltFile) contain(fn func() error) (err error) {
	if b.broken.Load() {
		return errBroken
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			b.broken.Store(true)
			err = corrupt(boltName, "%v", r)
		}
	}()
	return fn()
}

func (b *boltFile) read(fn func() error) error {
	b.reading.Lock()
	defer b.reading.Unlock()
	return b.contain(fn)
}

// close frees the file. After a panic bbolt's own Close might wait for ever; then the mapping stays until the process ends, but
// the file and the lock on it do not.
func (b *boltFile) close() error {
	err := b.contain(b.store.Close)
	if b.broken.Load() {
		return b.file.Close()
	}
	return err
}

func (b *boltFile) FirstIndex() (index uint64, err error) {
	err = b.read(func() error { index, err = b.store.FirstIndex(); return err })
	return index, err
}

func (b *boltFile) LastIndex() (index uint64, err error) {
	err = b.read(func() error { index, err = b.store.LastIndex(); return err })
	return index, err
}

func (b *boltFile) GetLog(index uint64, out *raft.Log) error {
	return b.read(func() error { return b.store.GetLog(index, out) })
}

func (b *boltFile) StoreLog(entry *raft.Log) error {
	return b.contain(func() error { return b.store.StoreLog(entry) })
}

func (b *boltFile) StoreLogs(entries []*raft.Log) error {
	return b.contain(func() error { return b.store.StoreLogs(entries) })
}

func (b *boltFile) DeleteRange(from, to uint64) error {
	return b.contain(func() error { return b.store.DeleteRange(from, to) })
}

func (b *boltFile) Set(key, value []byte) error {
	return b.contain(func() error { return b.store.Set(key, value) })
}

func (b *boltFile) Get(key []byte) (value []byte, err error) {
	err = b.read(func() error { value, err = b.store.Get(key); return err })
	return value, err
}
