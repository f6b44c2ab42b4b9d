package roundtrip

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock"
)

// quarantine is that of a cluster of which no hold has a delay.
const quarantine = quorumlock.MaxSessionTTL*5/4 + 5*time.Second

// restore makes a new cluster in the directory of one new member, of the newest object in the bucket.
func (r *round) restore(lost *lostCluster) *quorumlock.Restoration {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	newest := r.newest()
	lost.highest, lost.granted = r.ledger.top(), r.ledger.count()
	lost.late = r.ledger.above(newest.TokensUpTo)
	if lost.late < grantsAfter || newest.TokensUpTo < lost.snapshot.TokensUpTo {
		r.t.Errorf("the case did not bite: %d tokens were granted after the snapshot", lost.late)
	}
	from, err := r.store.Open(ctx, newest.Name)
	if err != nil {
		r.t.Fatal(err)
	}
	defer from.Close()
	cfg, stop := r.specs("new")[0].config()
	defer stop()
	done, err := quorumlock.Restore(ctx, cfg, quorumlock.RestoreOptions{From: from})
	if err != nil {
		r.t.Fatal(err)
	}
	if done.Quarantine != quarantine || done.TokensAbove <= lost.highest || done.Snapshot.ClusterID != lost.id || done.ClusterID == lost.id ||
		done.Snapshot.Holds == 0 || done.Snapshot.KeyID == "" != (len(r.keys) == 0) {
		r.t.Errorf("after token %v, cluster %s: %+v", lost.highest, lost.id, done)
	}
	return done
}

// comeBack starts the new cluster, and has somebody wait for each lock, and somebody try, from the beginning of the quarantine on. What it gives are the holds of those who waited.
func (r *round) comeBack(restored *quorumlock.Restoration, lost *lostCluster) *restoredCluster {
	t, start := r.t, time.Now()
	c := &restoredCluster{Restoration: restored}
	var id string
	c.members, id = startMembers(t, r.specs("new"))
	if id != restored.ClusterID {
		t.Fatalf("cluster %s is there, %s was restored", id, restored.ClusterID)
	}
	c.client = clientOf(t, r.cluster, "successor", c.members, r.keys)
	ctx, cancel := context.WithTimeout(context.Background(), quarantine+bound)
	defer cancel()
	c.holds = make([]*holder, len(r.locks()))
	var waiting sync.WaitGroup
	for i, lock := range r.locks() {
		waiting.Go(func() {
			h, err := r.take(ctx, c.client, lock)
			if err != nil {
				t.Errorf("lock after the quarantine: %v", err)
				return
			}
			r.comesLater(h, lost, restored, start)
			c.holds[i] = h
		})
	}
	r.tryAll(c, start)
	r.foreign(lost, c)
	waiting.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return c
}

// comesLater judges a grant of the new cluster at the moment at which it is known.
func (r *round) comesLater(h *holder, lost *lostCluster, restored *quorumlock.Restoration, start time.Time) {
	if after := time.Since(start); after < quarantine {
		r.t.Errorf("%s was granted %v after the start, in the quarantine", h.grant.Lock, after)
	}
	if h.grant.Token <= restored.TokensAbove || h.grant.Token <= lost.highest || h.grant.Cluster != restored.ClusterID {
		r.t.Errorf("granted %+v, all were to be above %v, of cluster %s", h.grant, restored.TokensAbove, restored.ClusterID)
	}
	for _, old := range lost.holds {
		if err := old.hold.Err(); !errors.Is(err, quorumlock.ErrLost) {
			r.t.Errorf("the old holder of %s believes in it: %v", old.grant.Lock, err)
		}
	}
}

// tryAll tries each lock, again and again, nearly to the end of the quarantine.
func (r *round) tryAll(c *restoredCluster, start time.Time) {
	attempts := 0
	for tick := time.NewTicker(time.Second); time.Since(start) < quarantine-2*time.Second; <-tick.C {
		for _, lock := range r.locks() {
			ctx, cancel := context.WithTimeout(context.Background(), bound)
			h, err := quorumlock.NewMutex(c.client, lock).TryLock(ctx)
			cancel()
			if !errors.Is(err, quorumlock.ErrQuarantine) {
				r.t.Errorf("%v after the start: %v, %v", time.Since(start), h, err)
			}
			attempts++
		}
	}
	if attempts < 100 {
		r.t.Errorf("only %d attempts in the quarantine", attempts)
	}
	r.sum.attempts.Add(int64(attempts))
}

// foreign has an old member come back with its directory: it is refused, and has no lock to give.
func (r *round) foreign(lost *lostCluster, c *restoredCluster) {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	s := spec{Cluster: r.cluster, Name: "old-1", Dir: lost.dir, Join: addrs(c.members), Keys: r.keys}
	cfg, stop := s.config()
	defer stop()
	n, err := quorumlock.Open(ctx, cfg)
	if err != nil {
		r.t.Error(err)
		return
	}
	defer n.Close()
	for {
		short, cancel := context.WithTimeout(ctx, 3*time.Second)
		h, err := quorumlock.NewMutex(n, r.busy()[0]).Lock(short)
		cancel()
		if err == nil {
			r.t.Errorf("the old member was granted token %v", h.Token())
		}
		if err == nil || errors.Is(err, quorumlock.ErrClusterChanged) {
			return
		}
		if ctx.Err() != nil {
			r.t.Errorf("the old member among the new ones: %v", err)
			return
		}
	}
}
