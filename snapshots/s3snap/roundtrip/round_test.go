package roundtrip

import (
	"bytes"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/snapshots"
)

// S36, S79, S81, I2, I14, I15, over real sockets, disks and servers: clusters are saved into a bucket while they work, killed with all disks, and restored from the newest
// snapshot, which lies behind. Their holders go on writing to PostgreSQL. No token comes twice, nobody is granted a lock in the quarantine, and from the first write of
// its successor on each old holder is refused.
func TestRounds(t *testing.T) {
	db, bucket, sum := openDatabase(t), startS3(t), &totals{}
	t.Run("round", func(t *testing.T) {
		for number := range *roundsWanted {
			t.Run(fmt.Sprint(number), func(t *testing.T) {
				t.Parallel()
				newRound(t, number, db, bucket, sum).run()
			})
		}
	})
	t.Logf("%d rounds: %d tokens of the old clusters, of them %d granted after the snapshot; %d of the new ones; after the loss old holders wrote %d times and were refused %d times, "+
		"%d old tokens were refused once more; %d attempts to lock in the quarantine", sum.rounds.Load(), sum.old.Load(), sum.late.Load(), sum.fresh.Load(), sum.accepted.Load(),
		sum.refused.Load(), sum.tried.Load(), sum.attempts.Load())
	if n := sum.rounds.Load(); n != int64(*roundsWanted) {
		t.Errorf("%d of %d rounds came to their end", n, *roundsWanted)
	}
	if n := db.number(t, "SELECT count(*) FROM (SELECT token, lag(token) OVER (PARTITION BY resource ORDER BY id) AS before FROM written) w WHERE token < before"); n > 0 {
		t.Errorf("%d rows were written under a lower token than the one before", n)
	}
}

// totals are what all rounds have seen.
type totals struct{ rounds, old, late, fresh, accepted, refused, tried, attempts atomic.Int64 }

// round is one way from a cluster that works, over the loss of everything, to one that works.
type round struct {
	t       *testing.T
	cluster string // name
	dir     string
	db      database
	keys    [][]byte
	bucket  *s3Server
	prefix  string
	store   snapshots.Store
	bySelf  bool // the leader saves once in an interval; otherwise a client does once

	ledger  *ledger
	writers atomic.Int64
	quit    func()        // ends the load
	over    chan struct{} // closed when old holders may stop
	lay     func()        // closes it, and waits until they have

	mu       sync.Mutex
	haunting []*holder

	sum *totals
}

func newRound(t *testing.T, number int, db database, bucket *s3Server, sum *totals) *round {
	r := &round{
		t: t, cluster: fmt.Sprintf("orders-%d", number), dir: t.TempDir(), db: db, bucket: bucket, prefix: fmt.Sprintf("round-%d/", number), bySelf: number%2 == 0,
		ledger: &ledger{t: t, seen: make(map[fence.Token]bool), of: make(map[string][]fence.Grant)}, over: make(chan struct{}), sum: sum,
	}
	if number%4 == 0 || number%4 == 3 { // half of those of either kind
		r.keys = [][]byte{bytes.Repeat([]byte{byte(number + 1)}, 32)}
	}
	var stop func()
	r.store, stop = storeAt(bucket.url, r.prefix, r.dir)
	t.Cleanup(stop)
	return r
}

// lock is a name that no other round has: all write into one table.
func (r *round) lock(name string) string { return r.cluster + "." + name }

// locks are all, first those among which the workers change, and then those of the two who hold one for good.
func (r *round) locks() []string {
	return append(r.busy(), r.lock("held before"), r.lock("held after"))
}

func (r *round) busy() []string { return []string{r.lock("a"), r.lock("b"), r.lock("c")} }

func (r *round) specs(generation string) []spec {
	specs := make([]spec, 3)
	for i := range specs {
		name := fmt.Sprintf("%s-%d", generation, i)
		specs[i] = spec{Cluster: r.cluster, Name: name, Dir: filepath.Join(r.dir, name), Keys: r.keys, Prefix: r.prefix, Spool: r.dir}
		if r.bySelf {
			specs[i].Bucket = r.bucket.url
		}
	}
	return specs
}

func (r *round) run() {
	old := r.lose()
	restored := r.restore(old)
	fresh := r.comeBack(restored, old)
	r.fenced(old, fresh)
	r.goOn(fresh)
	r.lay()
	r.judge(old, restored.ClusterID)
}

// lostCluster is what is left of it.
type lostCluster struct {
	id       string
	client   *quorumlock.Node
	holds    []*holder // which it had to the end
	highest  fence.Token
	granted  int // tokens
	late     int // of them after the snapshot
	snapshot quorumlock.StoredSnapshot
	dir      string // of one of its members, kept
}

// restoredCluster works.
type restoredCluster struct {
	*quorumlock.Restoration
	client  *quorumlock.Node
	members []*member
	holds   []*holder // of all locks
}
