//go:build !wasip1

package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
)

// bbolt's file format, version 2. Numbers are in the machine's byte order; a file from a machine of the other order fails the check.
const (
	boltMagic   = 0xED0CDAED
	boltVersion = 2

	boltPageHeader    = 16
	boltElementSize   = 16
	boltBucketHeader  = 16
	boltMetaSize      = 64
	boltMetaSummed    = 56 // bytes of the meta under its checksum
	boltBranchPage    = 0x01
	boltLeafPage      = 0x02
	boltBucketElement = 0x01
	boltMaxDepth      = 64
	boltFewestPages   = 2
)

var boltOrder = binary.NativeEndian

// boltMeta is one of the two meta pages: the root of everything as of one transaction.
type boltMeta struct {
	pageSize uint32
	root     uint64 // page of the root bucket
	end      uint64 // first page never used
	txid     uint64
}

// boltChecker walks a bbolt file without mapping it and without trusting it. What it passes, bbolt can open and walk: every
// reference leads to a page of the right kind inside the file, no page is reached twice (so there is no cycle), every element lies
// within its page, keys are in order. Contents are not its business; entries have their own checksums.
type boltChecker struct {
	file *os.File
	meta boltMeta
	seen map[uint64]struct{}
}

// checkBolt returns nil if bbolt can work with the file. Both meta pages must be valid. bbolt is content with one, and goes back to
// the older state when the newer one is damaged: a vote or an acknowledged entry would be forgotten in silence. A meta page fits
// a disk sector, so losing power while it is written does not damage it.
func checkBolt(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	first, err := readBoltMeta(file, 0)
	if err != nil {
		return fmt.Errorf("meta page 0: %w", err)
	}
	second, err := readBoltMeta(file, int64(first.pageSize))
	if err != nil {
		return fmt.Errorf("meta page 1: %w", err)
	}
	c := &boltChecker{file: file, meta: first, seen: map[uint64]struct{}{0: {}, 1: {}}}
	if second.txid > first.txid {
		c.meta = second
	}
	pages := uint64(info.Size()) / uint64(c.meta.pageSize)
	if first.pageSize != second.pageSize || c.meta.end < boltFewestPages || c.meta.end > pages {
		return fmt.Errorf("%d pages of %d bytes used, the file has %d bytes", c.meta.end, c.meta.pageSize, info.Size())
	}
	return c.tree(c.meta.root, keyRange{}, 0)
}

func readBoltMeta(file *os.File, offset int64) (boltMeta, error) {
	var page [boltPageHeader + boltMetaSize]byte
	if _, err := file.ReadAt(page[:], offset); err != nil {
		return boltMeta{}, err
	}
	b := page[boltPageHeader:]
	if boltOrder.Uint32(b) != boltMagic || boltOrder.Uint32(b[4:]) != boltVersion {
		return boltMeta{}, errors.New("not a bbolt file of version 2")
	}
	sum := fnv.New64a()
	_, _ = sum.Write(b[:boltMetaSummed])
	if boltOrder.Uint64(b[boltMetaSummed:]) != sum.Sum64() {
		return boltMeta{}, errChecksum
	}
	m := boltMeta{
		pageSize: boltOrder.Uint32(b[8:]),
		root:     boltOrder.Uint64(b[16:]),
		end:      boltOrder.Uint64(b[40:]),
		txid:     boltOrder.Uint64(b[48:]),
	}
	if m.pageSize < 1024 || m.pageSize > 1<<24 || m.pageSize&(m.pageSize-1) != 0 {
		return boltMeta{}, fmt.Errorf("page size %d", m.pageSize)
	}
	return m, nil
}

// keyRange bounds the keys of a subtree: from <= key < to; nil is no bound.
type keyRange struct{ from, to []byte }

func (r keyRange) admits(key []byte) bool {
	return (r.from == nil || bytes.Compare(key, r.from) >= 0) && (r.to == nil || bytes.Compare(key, r.to) < 0)
}

// tree checks the subtree whose top is the page.
func (c *boltChecker) tree(id uint64, keys keyRange, depth int) error {
	if depth > boltMaxDepth {
		return fmt.Errorf("page %d is more than %d levels deep", id, boltMaxDepth)
	}
	page, err := c.page(id)
	if err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	if boltOrder.Uint16(page[8:]) == boltBranchPage {
		err = c.branch(page, keys, depth)
	} else {
		err = c.leaf(page, keys, depth)
	}
	if err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	return nil
}

// page reads a page with its overflow pages and marks them as reached.
func (c *boltChecker) page(id uint64) ([]byte, error) {
	if id >= c.meta.end {
		return nil, fmt.Errorf("beyond the last page %d", c.meta.end)
	}
	var header [boltPageHeader]byte
	at := int64(id) * int64(c.meta.pageSize)
	if _, err := c.file.ReadAt(header[:], at); err != nil {
		return nil, err
	}
	flags, overflow := boltOrder.Uint16(header[8:]), uint64(boltOrder.Uint32(header[12:]))
	switch {
	case boltOrder.Uint64(header[:]) != id:
		return nil, fmt.Errorf("says it is page %d", boltOrder.Uint64(header[:]))
	case flags != boltBranchPage && flags != boltLeafPage:
		return nil, fmt.Errorf("flags %#x", flags)
	case overflow >= c.meta.end-id:
		return nil, fmt.Errorf("%d overflow pages go beyond the last page %d", overflow, c.meta.end)
	}
	for i := id; i <= id+overflow; i++ {
		if _, twice := c.seen[i]; twice {
			return nil, fmt.Errorf("page %d is reached twice", i)
		}
		c.seen[i] = struct{}{}
	}
	page := make([]byte, (overflow+1)*uint64(c.meta.pageSize))
	if _, err := c.file.ReadAt(page, at); err != nil {
		return nil, err
	}
	return page, nil
}

// branch checks a page of references. Its keys bound the keys of the pages below: from its own key up to the next one's.
func (c *boltChecker) branch(page []byte, keys keyRange, depth int) error {
	count := int(boltOrder.Uint16(page[10:]))
	if count == 0 {
		return errors.New("branch without elements")
	}
	all := make([][]byte, count)
	children := make([]uint64, count)
	for i := range count {
		e, err := element(page, i)
		if err != nil {
			return err
		}
		if all[i], _, err = e.split(e.at(0), e.at(4), 0); err != nil {
			return err
		}
		children[i] = boltOrder.Uint64(e.head[8:])
	}
	if err := ordered(all, keys); err != nil {
		return err
	}
	for i, child := range children {
		below := keyRange{from: all[i], to: keys.to}
		if i+1 < count {
			below.to = all[i+1]
		}
		if err := c.tree(child, below, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (c *boltChecker) leaf(page []byte, keys keyRange, depth int) error {
	count := int(boltOrder.Uint16(page[10:]))
	all := make([][]byte, count)
	for i := range count {
		e, err := element(page, i)
		if err != nil {
			return err
		}
		key, value, err := e.split(e.at(4), e.at(8), e.at(12))
		if err != nil {
			return err
		}
		all[i] = key
		if e.at(0)&boltBucketElement != 0 {
			if err := c.bucket(value, depth); err != nil {
				return fmt.Errorf("bucket %q: %w", key, err)
			}
		}
	}
	return ordered(all, keys)
}

// bucket checks a bucket's value: a reference to its own tree, or, without one, a leaf page inside the value.
func (c *boltChecker) bucket(value []byte, depth int) error {
	if len(value) < boltBucketHeader {
		return fmt.Errorf("%d bytes", len(value))
	}
	if root := boltOrder.Uint64(value); root != 0 {
		return c.tree(root, keyRange{}, depth+1)
	}
	inline := value[boltBucketHeader:]
	if len(inline) < boltPageHeader || boltOrder.Uint16(inline[8:]) != boltLeafPage || boltOrder.Uint64(inline) != 0 {
		return errors.New("its inline page is not a leaf")
	}
	return c.leaf(inline, keyRange{}, depth+1)
}

// boltElement is the fixed part of an element, and the page from there on, to which its position is relative.
type boltElement struct {
	head []byte
	rest []byte
}

func element(page []byte, i int) (boltElement, error) {
	at := boltPageHeader + i*boltElementSize
	if at+boltElementSize > len(page) {
		return boltElement{}, fmt.Errorf("element %d lies outside the page", i)
	}
	return boltElement{head: page[at : at+boltElementSize], rest: page[at:]}, nil
}

func (e boltElement) at(offset int) uint32 { return boltOrder.Uint32(e.head[offset:]) }

func (e boltElement) split(pos, keySize, valueSize uint32) (key, value []byte, err error) {
	keyEnd := uint64(pos) + uint64(keySize)
	end := keyEnd + uint64(valueSize)
	if keySize == 0 || end > uint64(len(e.rest)) {
		return nil, nil, errors.New("an element's key or value lies outside the page")
	}
	return e.rest[pos:keyEnd], e.rest[keyEnd:end], nil
}

func ordered(all [][]byte, within keyRange) error {
	for i, key := range all {
		if i > 0 && bytes.Compare(all[i-1], key) >= 0 {
			return fmt.Errorf("key %x does not follow %x", key, all[i-1])
		}
		if !within.admits(key) {
			return fmt.Errorf("key %x does not belong here", key)
		}
	}
	return nil
}
