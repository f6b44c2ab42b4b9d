package wal

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
)

// simFS is a directory that can lose power. What was not synced may be there or not after a crash: each sector of a file and each
// change of the directory for itself.
type simFS struct {
	mu      sync.Mutex
	names   map[string]*inode // as seen by the living
	kept    map[string]*inode // as synced
	pending []func(map[string]*inode)

	steps  int
	stopAt int // the step in which it crashes; 0: none
	dead   bool
	fail   func(op, name string) error // an error of the disk, without a crash; may be nil
}

type inode struct {
	live  []byte
	kept  []byte
	dirty map[int][][]byte // sector: what was written to it since the last sync
}

var errDead = errors.New("the process is dead")

func newSimFS() *simFS {
	return &simFS{names: make(map[string]*inode), kept: make(map[string]*inode)}
}

// step begins an operation. In the step of the crash the operation happens, unsynced, but nobody hears of it.
func (d *simFS) step(op, name string) (last bool, err error) {
	if d.dead {
		return false, errDead
	}
	d.steps++
	if d.steps == d.stopAt {
		d.dead = true
		return true, nil
	}
	if d.fail != nil {
		return false, d.fail(op, name)
	}
	return false, nil
}

func (d *simFS) do(op, name string, change func() error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	last, err := d.step(op, name)
	if err != nil {
		return err
	}
	if last && op == "sync" {
		return errDead
	}
	err = change()
	if last {
		return errDead
	}
	return err
}

func (d *simFS) changeNames(change func(map[string]*inode)) {
	change(d.names)
	d.pending = append(d.pending, change)
}

func (d *simFS) List() (names []string, err error) {
	err = d.do("list", "", func() error {
		names = slices.Sorted(maps.Keys(d.names))
		return nil
	})
	return names, err
}

func (d *simFS) Create(name string) (f File, err error) {
	err = d.do("create", name, func() error {
		node := &inode{dirty: make(map[int][][]byte)}
		d.changeNames(func(names map[string]*inode) { names[name] = node })
		f = &simFile{fs: d, name: name, node: node}
		return nil
	})
	return f, err
}

func (d *simFS) Open(name string) (f File, err error) {
	err = d.do("open", name, func() error {
		node, ok := d.names[name]
		if !ok {
			return fs.ErrNotExist
		}
		f = &simFile{fs: d, name: name, node: node}
		return nil
	})
	return f, err
}

func (d *simFS) Rename(from, to string) error {
	return d.do("rename", to, func() error {
		node, ok := d.names[from]
		if !ok {
			return fs.ErrNotExist
		}
		d.changeNames(func(names map[string]*inode) {
			delete(names, from)
			names[to] = node
		})
		return nil
	})
}

func (d *simFS) Remove(name string) error {
	return d.do("remove", name, func() error {
		d.changeNames(func(names map[string]*inode) { delete(names, name) })
		return nil
	})
}

func (d *simFS) Sync() error {
	return d.do("sync", "", func() error {
		d.kept, d.pending = maps.Clone(d.names), nil
		return nil
	})
}

// loss says how much of what was not synced a crash takes.
type loss int

const (
	loseNothing loss = iota // the process died, the machine did not
	loseAll
	loseSome
)

// crash returns the directory as the next process finds it. The old one stays as it is, so that it can be asked again.
func (d *simFS) crash(rng *rand.Rand, how loss) *simFS {
	d.mu.Lock()
	defer d.mu.Unlock()
	lost := func() bool { return how == loseAll || how == loseSome && rng.IntN(2) == 0 }
	after, copies := newSimFS(), make(map[*inode]*inode)
	names := maps.Clone(d.kept)
	for _, change := range d.pending {
		if !lost() {
			change(names)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		node := names[name]
		content := slices.Clone(node.kept)
		if len(node.live) > len(content) && !lost() {
			content = append(content, make([]byte, len(node.live)-len(content))...)
		}
		for _, sector := range slices.Sorted(maps.Keys(node.dirty)) {
			versions := node.dirty[sector]
			version := versions[len(versions)-1]
			if how == loseSome {
				version = versions[rng.IntN(len(versions))]
			}
			if !lost() && sector*sectorSize < len(content) {
				copy(content[sector*sectorSize:], version)
			}
		}
		n := &inode{kept: content, live: slices.Clone(content), dirty: make(map[int][][]byte)}
		if how == loseNothing { // still not on the disk
			n.kept, n.dirty = slices.Clone(node.kept), maps.Clone(node.dirty)
		}
		after.names[name] = n
		copies[node] = n
	}
	if how != loseNothing {
		after.kept = maps.Clone(after.names)
		return after
	}
	// The changes of the directory are not on the disk either: what was synced, and then all of them at once or none.
	for name, node := range d.kept {
		if copies[node] == nil {
			copies[node] = &inode{kept: slices.Clone(node.kept), live: slices.Clone(node.live), dirty: maps.Clone(node.dirty)}
		}
		after.kept[name] = copies[node]
	}
	if names := maps.Clone(after.names); len(d.pending) > 0 {
		after.pending = []func(map[string]*inode){func(into map[string]*inode) {
			clear(into)
			maps.Copy(into, names)
		}}
	}
	return after
}

// clone is a copy of what the living see, synced.
func (d *simFS) clone() *simFS {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := newSimFS()
	for name, n := range d.names {
		c.names[name] = &inode{live: slices.Clone(n.live), kept: slices.Clone(n.live), dirty: make(map[int][][]byte)}
	}
	c.kept = maps.Clone(c.names)
	return c
}

type simFile struct {
	fs     *simFS
	name   string
	node   *inode
	closed bool
}

func (f *simFile) ReadAt(p []byte, at int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	switch {
	case f.fs.dead:
		return 0, errDead
	case f.closed:
		return 0, fs.ErrClosed
	case at >= int64(len(f.node.live)):
		return 0, io.EOF
	}
	n := copy(p, f.node.live[at:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *simFile) WriteAt(p []byte, at int64) (n int, err error) {
	err = f.fs.do("write", f.name, func() error {
		if f.closed {
			return fs.ErrClosed
		}
		if at%sectorSize != 0 || len(p)%sectorSize != 0 {
			return errors.New("not a write of whole sectors")
		}
		if grow := int(at) + len(p) - len(f.node.live); grow > 0 {
			f.node.live = append(f.node.live, make([]byte, grow)...)
		}
		copy(f.node.live[at:], p)
		for i := 0; i < len(p); i += sectorSize {
			sector := (int(at) + i) / sectorSize
			f.node.dirty[sector] = append(slices.Clone(f.node.dirty[sector]), slices.Clone(p[i:i+sectorSize]))
		}
		n = len(p)
		return nil
	})
	return n, err
}

func (f *simFile) Sync() error {
	return f.fs.do("sync", f.name, func() error {
		f.node.kept, f.node.dirty = slices.Clone(f.node.live), make(map[int][][]byte)
		return nil
	})
}

func (f *simFile) Size() (int64, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	return int64(len(f.node.live)), nil
}

func (f *simFile) Close() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.closed {
		return fs.ErrClosed
	}
	f.closed = true
	return nil
}
