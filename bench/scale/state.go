//go:build linux

package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// stateStudy is what every member keeps, without a cluster around it.
var stateStudy = &study{
	name: "state", title: "the replicated state by itself: what a member keeps in memory, snapshots, restores",
	on:      "one process that applies commands to the state machine's table; its snapshot goes to a file with fsync and is read back from there",
	columns: []string{"MiB heap", "B each", "us/claim", "stops us", "write s", "file MiB", "restore s", "hash s"},
	cases: func(s sizes) (list []setting) {
		for _, c := range s.stateOf {
			c.label = fmt.Sprintf("%d sessions, %d holds, %d waiters", c.sessions, c.holds, c.waiters)
			list = append(list, c)
		}
		return list
	},
	run: func(b *bed, c setting, note noting) error {
		p, err := b.start(nil)
		if err != nil {
			return err
		}
		var figures map[string]float64
		err = b.ask(p, "Table", Records{c.sessions, c.holds, c.waiters, filepath.Join(b.dir, "snapshot")}, &figures)
		for column, value := range figures {
			note(column, value)
		}
		return err
	},
}

// Records is how large a table is wanted, and where its snapshot goes.
type Records struct {
	Sessions, Holds, Waiters int
	File                     string
}

// Table builds a table and measures it.
func (w *Worker) Table(r Records, figures *map[string]float64) error {
	f := make(map[string]float64)
	*figures = f
	before := heap()
	began := time.Now()
	t, err := r.build()
	if err != nil {
		return err
	}
	if claims := r.Holds + r.Waiters; claims > 0 {
		f["us/claim"] = time.Since(began).Seconds() * 1e6 / float64(claims)
	}
	size := heap() - before
	f["MiB heap"] = size / (1 << 20)
	f["B each"] = size / float64(max(r.Holds+r.Waiters, r.Sessions))
	var view *locktable.Snapshot
	var longest time.Duration
	for range 100 {
		began = time.Now()
		view = t.Snapshot()
		longest = max(longest, time.Since(began))
	}
	f["stops us"] = longest.Seconds() * 1e6
	began = time.Now()
	length, err := save(r.File, view)
	if err != nil {
		return err
	}
	f["write s"], f["file MiB"] = time.Since(began).Seconds(), float64(length)/(1<<20)
	began = time.Now()
	sum := view.Hash()
	f["hash s"] = time.Since(began).Seconds()
	began = time.Now()
	read, err := readBack(r.File)
	if err != nil {
		return err
	}
	f["restore s"] = time.Since(began).Seconds()
	if read.Snapshot().Hash() != sum {
		return errors.New("what was read back is another state")
	}
	runtime.KeepAlive(t)
	return nil
}

// build has sessions with names as a service gives them, and locks in no order; all who wait wait for one lock.
func (r Records) build() (*locktable.Table, error) {
	t := locktable.New()
	apply := func(want locktable.Code, c locktable.Command) (locktable.Result, error) {
		res := t.Apply(1, 1, 0, &c, nil)
		if res.Code != want {
			return res, fmt.Errorf("operation %d: code %d", c.Op, res.Code)
		}
		return res, nil
	}
	if _, err := apply(locktable.CodeOK, locktable.Command{Op: locktable.OpFound, ClusterID: "c", Rev: 1_780_000_000_000_000, TTL: time.Minute}); err != nil {
		return nil, err
	}
	ids := make([]locktable.SessionID, r.Sessions)
	for i := range ids {
		open := locktable.Command{Op: locktable.OpOpen, Node: fmt.Sprintf("%032d", i%50), NodeName: fmt.Sprint("web-", i%50), TTL: usualTTL}
		res, err := apply(locktable.CodeOK, open)
		if err != nil {
			return nil, err
		}
		ids[i] = res.Session
	}
	for i := range r.Holds + r.Waiters {
		seq := uint64(i/r.Sessions + 1)
		c := locktable.Command{Op: locktable.OpClaim, Session: ids[i%r.Sessions], Seq: seq, Floor: seq}
		want := locktable.CodeGranted
		if i < r.Holds {
			c.Names = []string{fmt.Sprintf("tenant/%07d/job-nightly", i*7919%r.Holds)}
		} else {
			c.Names, want = []string{"tenant/0000000/job-nightly"}, locktable.CodeWaiting
		}
		if _, err := apply(want, c); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func heap() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

func save(file string, view *locktable.Snapshot) (int64, error) {
	f, err := os.Create(file)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	buffered := bufio.NewWriterSize(f, 64<<10)
	if err := wire.WriteSnapshot(buffered, view); err != nil {
		return 0, err
	}
	if err := errors.Join(buffered.Flush(), f.Sync()); err != nil {
		return 0, err
	}
	stat, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return stat.Size(), nil
}

func readBack(file string) (*locktable.Table, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return wire.ReadSnapshot(bufio.NewReaderSize(f, 64<<10))
}
