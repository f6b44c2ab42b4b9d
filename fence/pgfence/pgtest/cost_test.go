package pgtest

import (
	"context"
	"database/sql"
	"math"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/fence/pgfence"
)

// A claim costs one round trip: no more, so that it is worth it, and no less, so that it is there.
func TestCost(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		proxy := newWire(t, shared.Addr)
		db := open(t, w.driver, shared.DSNAt(proxy.addr, w.name(t)))
		db.SetMaxOpenConns(1)
		ctx := w.holder(41)
		update := func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "UPDATE account SET balance = balance + 1 WHERE id = 'a'")
			return err
		}
		bare := func() error {
			tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: w.level})
			if err != nil {
				return err
			}
			defer tx.Rollback()
			if err := update(ctx, tx); err != nil {
				return err
			}
			return tx.Commit()
		}
		fenced := func() error { return pgfence.Tx(ctx, db, "a", update, w.opts...) }
		must(t, bare())                       // connects
		count := func(f func() error) int64 { // the least of some: pgx asks for a sign of life when a connection has been idle for a second
			least := int64(math.MaxInt64)
			for range 5 {
				before := proxy.waits.Load()
				must(t, f())
				least = min(least, proxy.waits.Load()-before)
			}
			return least
		}
		without, with := count(bare), count(fenced)
		if without != 3 || with != without+1 {
			t.Errorf("%d round trips, %d without a claim", with, without)
		}
		db = w.DB // without the proxy, for the times
		must(t, bare())
		const rounds = 300
		var times [2]time.Duration
		for range rounds { // in turn, so that what else the machine does falls on both
			for i, f := range []func() error{bare, fenced} {
				began := time.Now()
				must(t, f())
				times[i] += time.Since(began)
			}
		}
		t.Logf("%d round trips, %d without a claim; %v and %v for each, ratio %.2f",
			with, without, times[1]/rounds, times[0]/rounds, float64(times[1])/float64(times[0]))
	})
}
