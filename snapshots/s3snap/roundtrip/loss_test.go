package roundtrip

import (
	"context"
	"os"
	"sync"

	"github.com/quorumlock/quorumlock"
)

const (
	grantsBefore = 60 // the snapshot
	grantsAfter  = 30
)

// lose has a cluster work, saves its state while it does, lets it go on, and kills it with all its disks but one, which is moved elsewhere.
func (r *round) lose() *lostCluster {
	t, specs := r.t, r.specs("old")
	members, id := startMembers(t, specs)
	lost := &lostCluster{id: id, client: clientOf(t, r.cluster, "worker", members, r.keys)}
	var old sync.WaitGroup
	quit := make(chan struct{})
	r.quit = sync.OnceFunc(func() { close(quit) })
	r.lay = sync.OnceFunc(func() { close(r.over); old.Wait() })
	t.Cleanup(func() { r.quit(); r.lay() }) // of a round that fails in the middle
	for i := range 4 {
		locks := r.busy()
		old.Go(func() { r.work(lost.client, append(locks[i%3:], locks[:i%3]...), quit, true) })
	}
	lost.holds = append(lost.holds, r.hold(lost, 0))
	eventually(t, bound, "grants before the snapshot", func() bool { return r.ledger.count() >= grantsBefore })
	lost.snapshot = r.saved(lost)
	lost.holds = append(lost.holds, r.hold(lost, 1))
	// From here on the leader cannot save: it is the newest snapshot that has to lie behind.
	r.bucket.closeTo(r.prefix, true)
	eventually(t, bound, "grants after the snapshot", func() bool { return r.ledger.above(r.newest().TokensUpTo) >= grantsAfter })

	r.quit()
	killAll(members)
	r.bucket.closeTo(r.prefix, false)
	for _, h := range lost.holds {
		if err := h.hold.Err(); err != nil {
			t.Errorf("the holder of %s has stopped before the loss: %v", h.grant.Lock, err)
		}
		old.Go(func() { r.haunt(h) })
	}
	lost.dir = specs[1].Dir + "-kept"
	if err := os.Rename(specs[1].Dir, lost.dir); err != nil {
		t.Fatal(err)
	}
	for _, s := range specs {
		if err := os.RemoveAll(s.Dir); err != nil {
			t.Fatal(err)
		}
	}
	return lost
}

// hold takes one of the two locks that nobody else takes as long as the cluster lives.
func (r *round) hold(lost *lostCluster, which int) *holder {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	h, err := r.take(ctx, lost.client, r.locks()[3+which])
	if err == nil {
		err = r.write(h)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return h
}

// saved is a snapshot that was made under load: of what had been granted before the call.
func (r *round) saved(lost *lostCluster) quorumlock.StoredSnapshot {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	mark := r.ledger.top()
	if !r.bySelf {
		info, err := lost.client.SaveSnapshot(ctx, r.store)
		if err != nil {
			r.t.Fatal(err)
		}
		if info.TokensUpTo < mark {
			r.t.Errorf("the snapshot has tokens up to %v, after %v was granted", info.TokensUpTo, mark)
		}
	}
	eventually(r.t, bound, "a snapshot made under load", func() bool { return r.newest().TokensUpTo >= mark })
	return r.newest()
}

// newest is what the bucket lists first; zero if it has nothing.
func (r *round) newest() quorumlock.StoredSnapshot {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	list, err := quorumlock.ListSnapshots(ctx, r.store, r.cluster)
	if err != nil {
		r.t.Fatal(err)
	}
	if len(list) == 0 {
		return quorumlock.StoredSnapshot{}
	}
	return list[0]
}
