package pgtest

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/fence/pgfence"
)

// A transaction within a transaction on one resource would wait for itself, however many lie between them and however the outer
// one has claimed it.
func TestNested(t *testing.T) {
	eachDriver(t, func(t *testing.T, w *world) {
		store, err := pgfence.New(w.DB)
		must(t, err)
		refused := func(ctx context.Context, resource string) {
			t.Helper()
			if err := pgfence.Tx(ctx, w.DB, resource, nothing); !errors.Is(err, fence.ErrInvalid) {
				t.Errorf("a Tx of %s: %v", resource, err)
			}
			if err := fence.Claim(ctx, store, resource); !errors.Is(err, fence.ErrInvalid) {
				t.Errorf("a Store's claim of %s: %v", resource, err)
			}
		}
		must(t, w.tx(w.holder(41), func(ctx context.Context, outer *sql.Tx) error {
			refused(ctx, "a")
			must(t, pgfence.Claim(ctx, outer, "c"))
			refused(ctx, "c")
			return pgfence.Tx(ctx, w.DB, "b", func(ctx context.Context, inner *sql.Tx) error {
				must(t, pgfence.Claim(ctx, outer, "d")) // by way of the inner one's context
				must(t, pgfence.Claim(ctx, inner, "e"))
				must(t, pgfence.Claim(ctx, inner, "b")) // again is no matter
				for _, resource := range []string{"a", "b", "c", "d", "e"} {
					refused(ctx, resource)
				}
				if in, ok := pgfence.TxFrom(ctx); !ok || in != inner {
					t.Error("the context does not carry the inner transaction")
				}
				return pgfence.Tx(ctx, w.DB, "f", nothing)
			})
		}))
		must(t, w.tx(w.holder(41), nothing)) // they have let go
	})
}

// A transaction runs again without what it had claimed the time before.
func TestNestedInARetry(t *testing.T) {
	eachDriver(t, func(t *testing.T, w *world) {
		calls := 0
		must(t, w.tx(w.holder(41), func(ctx context.Context, tx *sql.Tx) error {
			if calls++; calls == 1 {
				must(t, pgfence.Claim(ctx, tx, "b"))
				return raise(ctx, tx, "40001")
			}
			return pgfence.Tx(ctx, w.DB, "b", nothing)
		}))
		if calls != 2 {
			t.Errorf("%d calls", calls)
		}
	})
}
