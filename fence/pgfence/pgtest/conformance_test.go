package pgtest

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/fence/fencetest"
	"github.com/quorumlock/quorumlock/fence/pgfence"
)

// backend is a table of values behind pgfence.
type backend struct {
	*world
	store *pgfence.Store
}

func newBackend(t *testing.T, w *world) backend {
	t.Helper()
	exec(t, w.DB, "CREATE TABLE fenced (resource text PRIMARY KEY, value text NOT NULL)")
	exec(t, w.DB, "CREATE TABLE unfenced (LIKE fenced INCLUDING ALL)")
	w.SetMaxOpenConns(16)
	w.SetMaxIdleConns(16)
	store, err := pgfence.New(w.DB, w.opts...)
	must(t, err)
	return backend{w, store}
}

func (b backend) Write(ctx context.Context, resource, value string) error {
	return pgfence.Tx(ctx, b.DB, resource, func(ctx context.Context, tx *sql.Tx) error {
		return put(ctx, tx, "fenced", resource, value)
	}, b.opts...)
}

func (b backend) Claim(ctx context.Context, resource string) error {
	return fence.Claim(ctx, b.store, resource)
}

func (b backend) Read(ctx context.Context, resource string) (string, error) {
	return get(ctx, b.DB, "fenced", resource)
}

func (b backend) WriteUnfenced(ctx context.Context, resource, value string) error {
	return put(ctx, b.DB, "unfenced", resource, value)
}

func (b backend) ReadUnfenced(ctx context.Context, resource string) (string, error) {
	return get(ctx, b.DB, "unfenced", resource)
}

// executor is a *sql.DB or a *sql.Tx.
type executor interface {
	ExecContext(ctx context.Context, statement string, args ...any) (sql.Result, error)
}

func put(ctx context.Context, db executor, table, resource, value string) error {
	_, err := db.ExecContext(ctx, "INSERT INTO "+table+" VALUES ($1, $2) ON CONFLICT (resource) DO UPDATE SET value = EXCLUDED.value",
		resource, value)
	return err
}

func get(ctx context.Context, db *sql.DB, table, resource string) (value string, err error) {
	err = db.QueryRowContext(ctx, "SELECT value FROM "+table+" WHERE resource = $1", resource).Scan(&value)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return value, err
}

func TestConformance(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		b := newBackend(t, w)
		fencetest.Run(t, func(*testing.T) fencetest.Backend { return b })
	})
}

// storeBackend writes by Store.Do.
type storeBackend struct{ backend }

func (b storeBackend) Write(ctx context.Context, resource, value string) error {
	return b.store.Do(ctx, resource, func(ctx context.Context) error {
		tx, ok := pgfence.TxFrom(ctx)
		if !ok {
			return errors.New("no transaction in the context")
		}
		return put(ctx, tx, "fenced", resource, value)
	})
}

func TestConformanceOfStore(t *testing.T) {
	eachDriver(t, func(t *testing.T, w *world) {
		b := storeBackend{newBackend(t, w)}
		fencetest.Run(t, func(*testing.T) fencetest.Backend { return b })
	})
}

// Each driver once, at a level where the claim is refused and at one where it fails and is tried again; the suite above runs
// on all pairs.
func TestStaleHolders(t *testing.T) {
	list := fencetest.Successions(t)
	for driver, level := range map[string]string{"pgx": "RepeatableRead", "pq": "ReadCommitted"} {
		t.Run(driver+"/"+level, func(t *testing.T) {
			w := newWorld(t, driver)
			w.opts = []pgfence.Option{pgfence.Isolation(levels[level])}
			fencetest.Stale(t, newBackend(t, w), list)
		})
	}
}
