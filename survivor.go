package quorumlock

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorumlock/quorumlock/internal/clock"
	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/internal/store"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// survivor is what one member's store comes to, read without raft.
type survivor struct {
	state       *locktable.Snapshot
	index, term uint64    // of the last entry
	lastEntry   time.Time // wall clock of the leader that wrote it; zero if not known
	servers     []membership.Server
}

// readSurvivor applies all that the store holds: the newest snapshot, and every entry after it, committed or not. The majority
// that could tell which of the last entries were committed is gone, and an entry too many does no harm in a state of which no
// hold survives, while one that was acknowledged may be among them.
func readSurvivor(ctx context.Context, s *store.Store, by wire.Binary) (*survivor, error) {
	r := &replay{survivor: &survivor{}, fsm: newFSM(clock.System(), by), store: s}
	r.fsm.publish = func([]locktable.Event) {}
	r.fsm.founded = func() {}
	r.fsm.reset = func(locktable.Header) {}
	r.fsm.fail = func(err error) { r.failed = err }
	r.fsm.hashes.run = func(func()) bool { return false }
	err := s.Guard(func() error {
		if err := r.snapshot(); err != nil {
			return err
		}
		return r.log(ctx)
	})
	if err != nil {
		return nil, fmt.Errorf("read what the member has: %w", err)
	}
	r.survivor.state = r.fsm.view()
	return r.survivor, nil
}

type replay struct {
	*survivor
	fsm    *fsm
	store  *store.Store
	failed error
}

func (r *replay) snapshot() error {
	list, err := r.store.Snapshots().List()
	if err != nil || len(list) == 0 {
		return err
	}
	meta, content, err := r.store.Snapshots().Open(list[0].ID)
	if err != nil {
		return err
	}
	if err := r.fsm.Restore(content); err != nil {
		return err
	}
	r.index, r.term = meta.Index, meta.Term
	r.configured(meta.Configuration)
	return nil
}

func (r *replay) log(ctx context.Context) error {
	first, err := r.store.Logs().FirstIndex()
	if err != nil {
		return err
	}
	last, err := r.store.Logs().LastIndex()
	if err != nil {
		return err
	}
	for index := max(first, 1); index <= last && r.failed == nil; index++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		var entry raft.Log
		if err := r.store.Logs().GetLog(index, &entry); err != nil {
			return err
		}
		r.entry(&entry)
	}
	return r.failed
}

// entry applies what the snapshot does not have, and takes the time from those before it, too.
func (r *replay) entry(e *raft.Log) {
	if e.Type == raft.LogCommand {
		if b, err := r.fsm.binary.DecodeBatch(e.Data); err == nil {
			r.lastEntry = time.UnixMilli(b.Wall)
		}
	}
	if e.Index <= r.index {
		return
	}
	r.index, r.term = e.Index, e.Term
	switch e.Type {
	case raft.LogCommand:
		r.fsm.Apply(e)
	case raft.LogConfiguration:
		r.configured(raft.DecodeConfiguration(e.Data))
	}
}

func (r *replay) configured(c raft.Configuration) {
	r.servers = nil
	for _, s := range c.Servers {
		r.servers = append(r.servers, membership.Server{ID: string(s.ID), Voter: s.Suffrage == raft.Voter})
	}
}
