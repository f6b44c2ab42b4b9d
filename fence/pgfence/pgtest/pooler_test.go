package pgtest

import (
	"errors"
	"testing"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/fence/pgfence"
	"github.com/quorumlock/quorumlock/internal/servers/servertest"
)

// Instances behind a pooler in transaction mode share its connections, and what was prepared on those, with the drivers' default
// settings. Of a refusal each gets the typed error, of a migration success, the first as the third, and nothing is left behind.
func TestInstancesBehindAPooler(t *testing.T) {
	eachDriver(t, func(t *testing.T, w *world) {
		must(t, w.tx(w.holder(42), set(42)))
		pooler := servertest.PgBouncer(t, shared, "default_pool_size = 1")
		for instance := range 3 {
			db := open(t, w.driver, pooler.DSN(w.name(t)))
			for range 3 {
				if err := pgfence.Migrate(w.ctx, db); err != nil {
					t.Errorf("instance %d: migrate: %v", instance, err)
				}
				var stale *fence.StaleTokenError
				if err := pgfence.Tx(w.holder(41), db, "a", set(41)); !errors.As(err, &stale) || stale.Highest != 42 {
					t.Errorf("instance %d: a stale write: %v", instance, err)
				}
			}
		}
		w.has(t, 42)
		last := open(t, "pq", pooler.DSN(w.name(t))) // asks without preparing
		var left int
		must(t, last.QueryRow("SELECT count(*) FROM pg_prepared_statements").Scan(&left))
		if left != 0 {
			t.Errorf("%d prepared statements are left on the shared connection", left)
		}
	})
}
