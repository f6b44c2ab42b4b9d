//go:build unix

package main

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/fence/fencetest"
	"github.com/quorumlock/quorumlock/internal/servers/servertest"
)

// storeBackend is a store as the conformance suite asks for it.
type storeBackend struct{ store }

func (b storeBackend) Write(ctx context.Context, resource, value string) error {
	return b.Do(ctx, resource, func(ctx context.Context) error { return b.put(ctx, fenced, resource, []byte(value)) })
}
func (b storeBackend) Claim(ctx context.Context, resource string) error {
	return fence.Claim(ctx, b.store, resource)
}
func (b storeBackend) Read(ctx context.Context, resource string) (string, error) {
	return b.read(ctx, fenced, resource)
}
func (b storeBackend) WriteUnfenced(ctx context.Context, resource, value string) error {
	return b.put(ctx, unfenced, resource, []byte(value))
}
func (b storeBackend) ReadUnfenced(ctx context.Context, resource string) (string, error) {
	return b.read(ctx, unfenced, resource)
}

func (b storeBackend) read(ctx context.Context, in section, resource string) (string, error) {
	content, err := b.get(ctx, in, resource)
	if errors.Is(err, errAbsent) {
		err = nil
	}
	return string(content), err
}

// newBolt is a store whose commits do not wait for the disk, which no test here turns off.
func newBolt(t testing.TB) *boltStore {
	t.Helper()
	s := reopenBolt(t, filepath.Join(t.TempDir(), "documents.db"))
	s.db.NoSync = true
	return s
}

func reopenBolt(t testing.TB, path string) *boltStore {
	t.Helper()
	s, err := openBolt(path)
	must(t, err)
	t.Cleanup(func() { must(t, s.close()) })
	return s
}

func newPostgres(t testing.TB) *postgresStore {
	t.Helper()
	s, err := openPostgres(t.Context(), servertest.Postgres(t, "fsync=off").DSN("postgres"), "documents")
	must(t, err)
	t.Cleanup(func() { must(t, s.close()) })
	return s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func holder(ctx context.Context, token fence.Token) context.Context {
	return fence.NewContext(ctx, fence.Grant{Cluster: "cluster-1", Lock: lockName, Token: token})
}

// TestStores runs each test on each kind of store. They use documents of their own, and share a server.
func TestStores(t *testing.T) {
	t.Parallel() // the runs of the program wait most of the time
	list := fencetest.Successions(t)
	for kind, open := range map[string]func(testing.TB) store{
		"bolt":     func(t testing.TB) store { return newBolt(t) },
		"postgres": func(t testing.TB) store { return newPostgres(t) },
	} {
		t.Run(kind, func(t *testing.T) {
			s := open(t)
			service := clientBackend{newService(t, s)}
			t.Run("Conforms", func(t *testing.T) {
				fencetest.Run(t, func(*testing.T) fencetest.Backend { return storeBackend{s} })
			})
			t.Run("ServiceConforms", func(t *testing.T) {
				fencetest.Run(t, func(*testing.T) fencetest.Backend { return service })
			})
			// More than 1,000 holders that real clusters have let another succeed, each writing late by HTTP.
			t.Run("ServiceRefusesStaleHolders", func(t *testing.T) { fencetest.Stale(t, service, list) })
			t.Run("StepRollsBack", func(t *testing.T) { stepRollsBack(t, s) })
			t.Run("PutWantsStep", func(t *testing.T) { putWantsStep(t, s) })
			t.Run("StepInStep", func(t *testing.T) { stepInStep(t, s) })
		})
	}
}

// A step that fails, by an error or a panic or the end of its context, leaves neither a document nor a grant, and keeps nobody
// waiting.
func stepRollsBack(t *testing.T, s store) {
	document := t.Name()
	b := storeBackend{s}
	must(t, b.Write(holder(t.Context(), 41), document, "before"))
	ctx, cancel := context.WithCancel(holder(t.Context(), 42))
	defer cancel()
	broken := errors.New("broken")
	steps := map[string]func(ctx context.Context) error{
		"error":       func(context.Context) error { return broken },
		"panic":       func(context.Context) error { panic(broken) },
		"end of wait": func(context.Context) error { cancel(); return nil },
	}
	for _, name := range []string{"error", "panic", "end of wait"} {
		err := recovering(func() error {
			return s.Do(ctx, document, func(ctx context.Context) error {
				must(t, s.put(ctx, fenced, document, []byte("after")))
				return steps[name](ctx)
			})
		})
		if !errors.Is(err, broken) && !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
		if value, err := b.Read(t.Context(), document); value != "before" || err != nil {
			t.Errorf("%s: the document is %q, %v", name, value, err)
		}
		if err := b.Claim(holder(t.Context(), 41), document); err != nil {
			t.Errorf("%s: the grant was kept: %v", name, err)
		}
	}
}

// recovering gives a panic's value as an error.
func recovering(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = v.(error)
		}
	}()
	return f()
}

// A fenced document cannot be written past the fence.
func putWantsStep(t *testing.T, s store) {
	document := t.Name()
	if err := s.put(holder(t.Context(), 1), fenced, document, []byte("x")); !errors.Is(err, errNoStep) {
		t.Errorf("put: %v", err)
	}
	if _, err := s.get(t.Context(), fenced, document); !errors.Is(err, errAbsent) {
		t.Errorf("get: %v", err)
	}
}

// A step within a step of the same resource would wait for itself.
func stepInStep(t *testing.T, s store) {
	document := t.Name()
	err := s.Do(holder(t.Context(), 1), document, func(ctx context.Context) error { return fence.Claim(ctx, s, document) })
	if !errors.Is(err, fence.ErrInvalid) {
		t.Errorf("a step within a step: %v", err)
	}
}

// What was accepted is refused after a restart too; with the file in use by somebody else the error comes soon.
func TestBoltKeepsGrants(t *testing.T) {
	path := filepath.Join(t.TempDir(), "documents.db")
	s, err := openBolt(path)
	must(t, err)
	must(t, storeBackend{s}.Write(holder(t.Context(), 42), ledger, "kept"))
	if _, err := openBolt(path); err == nil {
		t.Error("a file in use was opened")
	}
	must(t, s.close())
	b := storeBackend{reopenBolt(t, path)}
	if err := b.Write(holder(t.Context(), 41), ledger, "late"); !errors.Is(err, fence.ErrStaleToken) {
		t.Errorf("a write under an old token: %v", err)
	}
	if value, err := b.Read(t.Context(), ledger); value != "kept" || err != nil {
		t.Errorf("the document is %q, %v", value, err)
	}
}

// Whoever waits for a writer that stands still can be called off, and learns why.
func TestBoltWaitIsBounded(t *testing.T) {
	s := newBolt(t)
	why := errors.New("the hold was lost")
	err := s.Do(holder(t.Context(), 1), "a", func(context.Context) error {
		ctx, cancel := context.WithCancelCause(holder(t.Context(), 1))
		waits := make(chan error, 1)
		go func() { waits <- fence.Claim(ctx, s, "b") }()
		cancel(why)
		return <-waits
	})
	if !errors.Is(err, why) || !errors.Is(err, context.Canceled) {
		t.Errorf("the wait ended with %v", err)
	}
}

// A grant that cannot be read is no reason to accept another.
func TestBoltRefusesWhatItCannotRead(t *testing.T) {
	s := newBolt(t)
	tx, err := s.db.Begin(true)
	must(t, err)
	must(t, tx.Bucket([]byte(grantsBucket)).Put([]byte(ledger), []byte("{")))
	must(t, tx.Commit())
	if err := fence.Claim(holder(t.Context(), 1), s, ledger); err == nil {
		t.Error("accepted")
	}
}

// A run's schema goes without a trace, though the fence forbids that its rows are deleted.
func TestDropSchema(t *testing.T) {
	server := servertest.Postgres(t, "fsync=off")
	s, err := openPostgres(t.Context(), server.DSN("postgres"), "quorumlock_storage_test")
	must(t, err)
	must(t, storeBackend{s}.Write(holder(t.Context(), 42), ledger, "kept"))
	must(t, s.close())
	must(t, dropSchema(t.Context(), server.DSN("postgres"), s.schema))
	must(t, dropSchema(t.Context(), server.DSN("postgres"), s.schema)) // does no harm
	if n := schemas(t, server.DSN("postgres")); n != 0 {
		t.Errorf("%d schemas are left", n)
	}
}

func schemas(t testing.TB, dsn string) (n int) {
	t.Helper()
	db, err := connect(dsn)
	must(t, err)
	defer db.Close()
	must(t, db.QueryRowContext(t.Context(), "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'quorumlock%'").Scan(&n))
	return n
}
