package pgtest

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/fence/pgfence"
)

// load is many writers of a few counters, whose lock goes from holder to holder, while transactions fail, connections are
// killed and answers to commits are lost. Each operation adds one, with its id in the same transaction, and is tried until it
// is known to have been done.
type load struct {
	*world
	each   int               // operations of one writer
	tokens [8]atomic.Int64   // of the present holder, for each counter
	done   atomic.Int64      // operations
	toKill chan struct{}     // by progress, not by the clock: so a slow machine has no more faults than a fast one
	toTake chan struct{}     // the same for another holder to take over
	faults counts            // that bit
	mu     sync.Mutex        // guards first
	first  map[string]string // of each kind of lost connection, the first error
}

type counts struct{ stale, killed, lost, unheard, unsent, terms atomic.Int64 }

const (
	writers  = 32
	killEach = 200 // operations to a killed connection
	takeEach = 100 // operations to another holder
)

func TestLoad(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*bound)
	defer cancel()
	l := &load{
		world: newWorld(t, "pgx"), each: 2000, first: map[string]string{},
		toKill: make(chan struct{}, 1), toTake: make(chan struct{}, 1),
	}
	if testing.Short() {
		l.each = 200
	}
	l.ctx = ctx
	l.prepare(t)
	began := time.Now()
	l.run(t)
	took := time.Since(began)

	want := writers * l.each
	if n := l.number(t, "SELECT sum(n) FROM counter"); n != want {
		t.Errorf("counted to %d by %d operations", n, want)
	}
	if n := l.number(t, "SELECT count(*) FROM done"); n != want {
		t.Errorf("%d operations of %d are done", n, want)
	}
	injected := l.number(t, "SELECT last_value FROM injected")
	for what, n := range map[string]int64{
		"serialization failures":      int64(injected),
		"killed connections":          l.faults.killed.Load(),
		"errors of lost connections":  l.faults.lost.Load(),
		"commits not answered":        l.faults.unheard.Load(),
		"commits not sent":            l.faults.unsent.Load(),
		"stale writes":                l.faults.stale.Load(),
		"holders after the first one": l.faults.terms.Load(),
	} {
		if n == 0 {
			t.Errorf("no %s: the fault did not bite", what)
		}
		t.Logf("%s: %d", what, n)
	}
	t.Logf("%d operations in %v, %.0f/s", want, took.Round(time.Second), float64(want)/took.Seconds())
	for kind, text := range l.first {
		t.Logf("lost as %s: %s", kind, text)
	}
}

func (l *load) prepare(t *testing.T) {
	t.Helper()
	exec(t, l.DB, "CREATE TABLE counter (id text PRIMARY KEY, n bigint NOT NULL)")
	exec(t, l.DB, "CREATE TABLE done (op bigint PRIMARY KEY); CREATE SEQUENCE injected")
	exec(t, l.DB, `CREATE FUNCTION inject() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF random() < 0.01 THEN PERFORM nextval('injected'); RAISE EXCEPTION 'injected' USING ERRCODE = '40001'; END IF;
		RETURN NEW; END $$`)
	exec(t, l.DB, "CREATE TRIGGER inject BEFORE UPDATE ON counter FOR EACH ROW EXECUTE FUNCTION inject()")
	for i := range l.tokens {
		exec(t, l.DB, "INSERT INTO counter VALUES ($1, 0)", counter(i))
		l.tokens[i].Store(1)
	}
}

func counter(i int) string { return fmt.Sprintf("counter-%d", i) }

func (l *load) run(t *testing.T) {
	var faults, all sync.WaitGroup
	faults.Go(func() { l.kill(t) })
	faults.Go(func() { l.succeed(t) })
	lossy := newWire(t, shared.Addr)
	lossy.onCommit = loseSome()
	name := l.name(t)
	for i := range writers {
		addr := shared.Addr
		if i%4 == 0 {
			addr = lossy.addr
		}
		driver := []string{"pgx", "pq"}[i%2]
		level := []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable}[i%3]
		// A scan of the whole table would make all SERIALIZABLE writers conflict.
		db := open(t, driver, shared.DSNAt(addr, name)+"&application_name=writer&enable_seqscan=off")
		w := &writer{load: l, db: db, id: i, counter: i / 2 % len(l.tokens), opts: []pgfence.Option{pgfence.Isolation(level)}}
		all.Go(func() { w.run(t) })
	}
	all.Wait()
	close(l.toKill)
	close(l.toTake)
	faults.Wait()
}

// progressed is called after each operation, and now and then asks for a fault, unless the one before is still to come.
func (l *load) progressed() {
	n := l.done.Add(1)
	if n%killEach == 0 {
		wake(l.toKill)
	}
	if n%takeEach == 0 {
		wake(l.toTake)
	}
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// kill ends the session of a writer again and again.
func (l *load) kill(t *testing.T) {
	for range l.toKill {
		var n int64
		err := l.QueryRow(`SELECT count(pg_terminate_backend(pid)) FROM (SELECT pid FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = 'writer' ORDER BY random() LIMIT 1) AS victim`).Scan(&n)
		if err != nil {
			t.Error(err)
		}
		l.faults.killed.Add(n)
	}
}

// succeed has another holder take over a counter again and again, of which its predecessor learns when it is refused.
func (l *load) succeed(t *testing.T) {
	store, err := pgfence.New(l.DB)
	if err != nil {
		t.Error(err)
		return
	}
	for range l.toTake {
		i := rand.IntN(len(l.tokens))
		next := l.tokens[i].Load() + 1
		if err := fence.Claim(under(l.ctx, fence.Token(next)), store, counter(i)); err != nil {
			t.Error(err)
		}
		l.tokens[i].Store(next)
		l.faults.terms.Add(1)
	}
}

// loseSome loses the answer to one COMMIT in 100, and of another one the COMMIT itself.
func loseSome() func() fate {
	var n atomic.Int64
	return func() fate {
		switch n.Add(1) % 100 {
		case 33:
			return fate{how: unheard}
		case 66:
			return fate{how: unsent}
		}
		return fate{how: passed}
	}
}

type writer struct {
	*load
	db      *sql.DB
	id      int
	counter int
	opts    []pgfence.Option
	token   int64 // kept until it is refused
}

func (w *writer) run(t *testing.T) {
	w.token = w.tokens[w.counter].Load()
	for n := range w.each {
		if err := w.do(w.id*w.each + n); err != nil {
			t.Errorf("writer %d: %v", w.id, err)
			return
		}
		w.progressed()
	}
}

// do does one operation. What it was told before must be true: only after an unknown outcome may it find that the operation
// has been done.
func (w *writer) do(op int) error {
	for unknown := false; ; {
		found, err := w.try(op)
		if found && !unknown {
			return fmt.Errorf("operation %d had been committed, by a call that returned another error than an unknown outcome", op)
		}
		var outcome *pgfence.UnknownOutcomeError
		switch {
		case err == nil:
			if unknown {
				w.resolved(found)
			}
			return nil
		case w.ctx.Err() != nil:
			return err
		case errors.Is(err, fence.ErrStaleToken):
			w.faults.stale.Add(1)
			w.token = w.tokens[w.counter].Load()
		case errors.As(err, &outcome):
			unknown = true
		case isLost(err):
			w.lostBy(err)
		default:
			return err
		}
	}
}

// try is one attempt; found tells that the operation had been done before. A claim has come first, so it is not about to be
// done by an earlier attempt either.
func (w *writer) try(op int) (found bool, err error) {
	err = pgfence.Tx(under(w.ctx, fence.Token(w.token)), w.db, counter(w.counter), func(ctx context.Context, tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx, fmt.Sprintf(`WITH new AS (INSERT INTO done VALUES (%d) ON CONFLICT DO NOTHING RETURNING op)
			UPDATE counter SET n = n + 1 FROM new WHERE id = '%s'`, op, counter(w.counter)))
		if err != nil {
			return err
		}
		n, err := result.RowsAffected()
		found = n == 0
		return err
	}, w.opts...)
	return found && err == nil, err
}

func (l *load) resolved(found bool) {
	if found {
		l.faults.unheard.Add(1)
	} else {
		l.faults.unsent.Add(1)
	}
}

// isLost reports whether err is that of a connection which was ended: the server says so, or the driver.
func isLost(err error) bool {
	state := stateOf(err)
	return state == "57P01" || strings.HasPrefix(state, "08") || state == ""
}

func (l *load) lostBy(err error) {
	l.faults.lost.Add(1)
	kind := stateOf(err)
	if errors.Is(err, driver.ErrBadConn) {
		kind = "bad connection"
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.first[kind]; !known {
		l.first[kind] = err.Error()
	}
}
