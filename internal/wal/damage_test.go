package wal

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// filledLog is a log over several segments, with entries of several sectors, a removed head and a removed tail, all synced.
func filledLog(t testing.TB) (*simFS, model) {
	t.Helper()
	rng := rand.New(rand.NewPCG(7, 7))
	fs, m := newSimFS(), model{}
	l := mustCreate(t, fs, testOptions)
	for len(l.segments) < 6 {
		a := randomAct(rng, m)
		if err := a.do(l); err != nil {
			t.Fatal(err)
		}
		m = a.ends[len(a.ends)-1]
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return fs, m
}

// openDamaged opens a log that was damaged, and returns its error. Without one the log must be what it was.
func openDamaged(t testing.TB, fs *simFS, m model) error {
	t.Helper()
	l, err := Open(fs, testOptions)
	if err != nil {
		var damaged *CorruptError
		if !errors.As(err, &damaged) {
			t.Errorf("%v (%T)", err, err)
		}
		return err
	}
	if d := m.diff(l); d != "" {
		t.Errorf("damage was taken for a log: %s", d)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	return nil
}

// TestDamagedByte flips bits all over the files. Each flip is found, used or unused as the place may be.
func TestDamagedByte(t *testing.T) {
	good, m := filledLog(t)
	rng := rand.New(rand.NewPCG(1, 1))
	flips := 0
	for _, name := range slices.Sorted(maps.Keys(good.names)) {
		size := len(good.names[name].live)
		for at := range size {
			if at >= 64 && at%sectorSize >= sectorHead && rng.IntN(16) != 0 {
				continue
			}
			fs := good.clone()
			fs.names[name].live[at] ^= 1 << rng.IntN(8)
			flips++
			if openDamaged(t, fs, m) == nil {
				t.Fatalf("%s: the flip of a bit at %d was not found", name, at)
			}
		}
	}
	if t.Logf("%d flips", flips); flips < 2000 {
		t.Error("too few")
	}
}

// TestDamagedFiles loses, cuts, exchanges and copies files and sectors.
func TestDamagedFiles(t *testing.T) {
	good, m := filledLog(t)
	other, _ := filledLog(t)
	names := slices.Sorted(maps.Keys(good.names))
	last := names[len(names)-3] // in use; two spares follow
	damage := map[string]func(fs *simFS){
		"strange file":   func(fs *simFS) { fs.names["raft.db"] = &inode{} },
		"strange number": func(fs *simFS) { fs.names["0000000000001.log"] = &inode{} },
		"no file":        func(fs *simFS) { clear(fs.names) },
		"empty file":     func(fs *simFS) { fs.names[names[1]].live = nil },
		"last ones missing": func(fs *simFS) {
			delete(fs.names, last)
			delete(fs.names, names[len(names)-2])
			delete(fs.names, names[len(names)-1])
		},
		"spares missing":        func(fs *simFS) { delete(fs.names, names[len(names)-2]); delete(fs.names, names[len(names)-1]) },
		"exchanged":             func(fs *simFS) { fs.names[names[1]], fs.names[names[2]] = fs.names[names[2]], fs.names[names[1]] },
		"of another log":        func(fs *simFS) { fs.names[names[1]] = other.clone().names[names[1]] },
		"emptied segment":       func(fs *simFS) { clear(fs.names[names[len(names)-4]].live[sectorSize:]) },
		"emptied first segment": func(fs *simFS) { clear(fs.names[names[0]].live[sectorSize:]) },
	}
	for i, name := range names[:len(names)-1] {
		if i > 0 {
			damage["missing "+name] = func(fs *simFS) { delete(fs.names, name) }
		}
		damage["cut "+name] = func(fs *simFS) { fs.names[name].live = fs.names[name].live[:3*sectorSize] }
		damage["cut within a sector "+name] = func(fs *simFS) { fs.names[name].live = fs.names[name].live[:3*sectorSize+100] }
		damage["grown "+name] = func(fs *simFS) { fs.names[name].live = append(fs.names[name].live, zeroSector[:]...) }
	}
	for what, do := range damage {
		t.Run(what, func(t *testing.T) {
			fs := good.clone()
			do(fs)
			before := fs.clone()
			if openDamaged(t, fs, m) == nil {
				t.Error("it was not found")
			}
			for name, n := range before.names {
				if after := fs.names[name]; after == nil || string(after.live) != string(n.live) {
					t.Errorf("%s was changed", name)
				}
			}
		})
	}
}

// TestLostSector zeroes a sector, as a disk does that reports a write which it never made. It is found everywhere but in the batch
// written last, which a crash before its sync would have left so.
func TestLostSector(t *testing.T) {
	good, m := filledLog(t)
	rng := rand.New(rand.NewPCG(3, 3))
	names := slices.Sorted(maps.Keys(good.names))
	for _, name := range names[:len(names)-2] {
		content := good.names[name].live
		end := len(content)
		for isZero(content[end-sectorSize : end]) {
			end -= sectorSize
		}
		if name == names[len(names)-3] {
			number, _ := segmentNumber(name)
			s, _, err := openSegment(good.clone(), number, 0)
			if err != nil {
				t.Fatal(err)
			}
			h, ok := s.open(uint32(end/sectorSize-1), content[end-sectorSize:end])
			if !ok {
				t.Fatal("the last sector is none")
			}
			end -= int(h.parts) * sectorSize
		}
		for at := 0; at < end; at += sectorSize {
			if isZero(content[at : at+sectorSize]) {
				continue
			}
			fs := good.clone()
			clear(fs.names[name].live[at : at+sectorSize])
			if openDamaged(t, fs, m) == nil {
				t.Errorf("%s: sector %d was lost, and nobody saw it", name, at/sectorSize)
			}
			fs = good.clone() // a sector of another place, or of another time
			from := rng.IntN(end/sectorSize) * sectorSize
			if copy(fs.names[name].live[at:], content[from:from+sectorSize]); from != at && openDamaged(t, fs, m) == nil {
				t.Errorf("%s: sector %d stands at %d, and nobody saw it", name, from/sectorSize, at/sectorSize)
			}
		}
	}
}

// TestDamageUnderOpenLog: a read does not hand out what was not written.
func TestDamageUnderOpenLog(t *testing.T) {
	fs, m := filledLog(t)
	l, err := Open(fs, testOptions)
	if err != nil {
		t.Fatal(err)
	}
	first, last := l.Bounds()
	for index := first; index <= last; index++ {
		p := l.places[index-first]
		n := fs.names[p.segment.name()]
		good := slices.Clone(n.live)
		for _, do := range []func([]byte) []byte{
			func(b []byte) []byte { b[int(p.sector)*sectorSize+100] ^= 4; return b },
			func(b []byte) []byte { return b[:int(p.sector)*sectorSize+20] },
		} {
			n.live = do(slices.Clone(good))
			if data, err := l.Get(index); err == nil && string(data) != string(m.entries[index-first]) {
				t.Fatalf("entry %d was handed out as something else", index)
			} else if err == nil && p.size > 0 {
				t.Fatalf("damage of entry %d was not found", index)
			}
		}
		n.live = good
	}
	if d := m.diff(l); d != "" {
		t.Error(d)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// FuzzOpen reads segments made of anything, with or without checksums that hold.
func FuzzOpen(f *testing.F) {
	good, _ := filledLog(f)
	names := slices.Sorted(maps.Keys(good.names))
	for _, name := range names {
		f.Add(good.names[name].live[sectorSize:], false, false)
		f.Add(good.names[name].live[sectorSize:], true, true)
	}
	f.Add(appendMark(appendMark(nil, recordTail, 3), recordHead, 9), true, true)
	f.Add(appendEntry(appendEntry(nil, 1<<63, []byte("a")), ^uint64(0), nil), true, true)
	f.Add(appendEntry(nil, 0, make([]byte, 1000)), true, true)
	f.Fuzz(func(t *testing.T, content []byte, payload, sealed bool) {
		content = content[:min(len(content), 32*sectorSize)]
		at := newSite(5, 1)
		var sectors []byte
		switch {
		case payload && len(content) > 0: // records of any form in a good batch
			sectors = at.cut(nil, content, 1, 1)
		default:
			sectors = append(content, make([]byte, (sectorSize-len(content)%sectorSize)%sectorSize)...)
			for i := 0; sealed && i < len(sectors); i += sectorSize { // any header under a good checksum
				h, _ := at.open(uint32(1+i/sectorSize), sectors[i:i+sectorSize])
				at.seal(uint32(1+i/sectorSize), sectors[i:i+sectorSize], h)
			}
		}
		sectors = append(sectors, make([]byte, 4*sectorSize)...)
		fs := newSimFS()
		for number, body := range map[uint64][]byte{1: sectors, 2: make([]byte, 4*sectorSize)} {
			live := append(segmentHeader(newSite(5, number), uint64(sectorSize+len(body))), body...)
			fs.names[segmentName(number)] = &inode{live: live, dirty: make(map[int][][]byte)}
		}
		l, err := Open(fs, testOptions)
		if err != nil {
			var damaged *CorruptError
			if !errors.As(err, &damaged) {
				t.Fatalf("%v (%T)", err, err)
			}
			return
		}
		m := model{}
		first, last := l.Bounds()
		for index := first; last != 0 && index <= last && len(m.entries) < 1<<16; index++ {
			data, err := l.Get(index)
			if err != nil {
				t.Fatal(err)
			}
			m = m.append(index, [][]byte{data})
			if index == ^uint64(0) {
				break
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		again, err := Open(fs, testOptions)
		if err != nil {
			t.Fatal(err)
		}
		if f, n := again.Bounds(); f != first || n != last {
			t.Fatalf("bounds %d to %d, and the next time %d to %d", first, last, f, n)
		}
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
