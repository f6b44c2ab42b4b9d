package roundtrip

import (
	"context"
	"errors"
	"time"

	"github.com/quorumlock/quorumlock/fence"
)

// fenced has the new holders write, whereupon all who have an old token are refused: those that never stopped trying, and each grant there ever was.
func (r *round) fenced(lost *lostCluster, c *restoredCluster) {
	t := r.t
	for _, h := range c.holds {
		if err := r.write(h); err != nil {
			t.Fatalf("the first write of the new holder of %s: %v", h.grant.Lock, err)
		}
	}
	r.mu.Lock()
	haunting := r.haunting
	r.mu.Unlock()
	if len(haunting) < len(lost.holds) {
		t.Errorf("%d old holders go on", len(haunting))
	}
	for _, h := range haunting {
		if n := h.accepted.Load(); n < int64(quarantine/hauntEvery/10) {
			t.Errorf("the case did not bite: the old holder of %s has written %d times after the loss", h.grant.Lock, n)
		}
		eventually(t, bound, "the refusal of an old holder", func() bool { return h.refused.Load() >= 3 })
	}
	for _, g := range r.ledger.all() {
		if g.Cluster != lost.id {
			continue
		}
		ctx, cancel := context.WithTimeout(fence.NewContext(context.Background(), g), bound)
		err := r.db.write(ctx, g.Lock, "nobody")
		cancel()
		var stale *fence.StaleTokenError
		if !errors.As(err, &stale) || stale.Highest <= lost.highest {
			t.Errorf("a write under old token %v of %s: %v", g.Token, g.Lock, err)
		}
		r.sum.tried.Add(1)
	}
}

// goOn has the new cluster work as the old one did.
func (r *round) goOn(c *restoredCluster) {
	for _, h := range c.holds {
		if err := h.hold.Unlock(); err != nil {
			r.t.Errorf("unlock: %v", err)
		}
	}
	quit, done := make(chan struct{}), make(chan struct{})
	before := r.ledger.count()
	go func() { defer close(done); r.work(c.client, r.busy(), quit, false) }()
	for end := time.Now().Add(bound); r.ledger.count() < before+grantsAfter && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
	}
	close(quit)
	<-done
	if n := r.ledger.count() - before; n < grantsAfter {
		r.t.Errorf("%d grants after the restore", n)
	}
}

// judge looks at what the database has.
func (r *round) judge(lost *lostCluster, cluster string) {
	t, of := r.t, r.lock("%")
	for what, query := range map[string]string{
		"tokens under which several grants have written":         "SELECT count(*) FROM (SELECT token FROM written WHERE resource LIKE $1 GROUP BY token HAVING count(DISTINCT writer) > 1) w",
		"rows of the old cluster that follow one of the new one": "SELECT count(*) FROM (SELECT cluster, bool_or(cluster = '" + cluster + "') OVER (PARTITION BY resource ORDER BY id) AS late FROM written WHERE resource LIKE $1) w WHERE late AND cluster = '" + lost.id + "'",
		"rows of a refused write":                                "SELECT count(*) FROM written WHERE resource LIKE $1 AND writer = 'nobody'",
		"rows of neither cluster":                                "SELECT count(*) FROM written WHERE resource LIKE $1 AND cluster NOT IN ('" + lost.id + "', '" + cluster + "')",
	} {
		if n := r.db.number(t, query, of); n > 0 {
			t.Errorf("%s: %d", what, n)
		}
	}
	var accepted, refused int64
	for _, h := range r.haunting {
		accepted += h.accepted.Load()
		refused += h.refused.Load()
	}
	fresh := r.ledger.count() - lost.granted
	t.Logf("encrypted %v, saved by the leader %v: %d tokens up to %v, of them %d after the snapshot, %d new ones; %d old holders wrote %d times after the loss and were refused %d times",
		len(r.keys) > 0, r.bySelf, lost.granted, lost.highest, lost.late, fresh, len(r.haunting), accepted, refused)
	r.sum.rounds.Add(1)
	r.sum.old.Add(int64(lost.granted))
	r.sum.late.Add(int64(lost.late))
	r.sum.fresh.Add(int64(fresh))
	r.sum.accepted.Add(accepted)
	r.sum.refused.Add(refused)
}
