package pgtest

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/fence/pgfence"
	"github.com/quorumlock/quorumlock/internal/servers"
	"github.com/quorumlock/quorumlock/internal/servers/servertest"
)

// bound is for what one test asks of a server, far above what it takes.
const bound = time.Minute

// shared is the server of all tests that do it no harm. Each test has a database of its own.
var (
	shared    *servers.PostgresServer
	sharedErr error
)

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "pgtest")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_ = os.Chmod(dir, 0o711) // the server may run as another user
	// Commits that are not on the disk are none of these tests' business.
	shared, sharedErr = servers.Postgres(context.Background(), filepath.Join(dir, "data"),
		"fsync=off", "synchronous_commit=off", "max_connections=200", "log_min_messages=fatal")
	code := m.Run()
	if sharedErr == nil {
		shared.Stop()
	}
	_ = os.RemoveAll(dir)
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// drivers are the names under which they register.
var drivers = map[string]string{"pgx": "pgx", "pq": "postgres"}

var levels = map[string]sql.IsolationLevel{
	"ReadCommitted":  sql.LevelReadCommitted,
	"RepeatableRead": sql.LevelRepeatableRead,
	"Serializable":   sql.LevelSerializable,
}

// world is a test's database, as one driver and isolation level show it.
type world struct {
	*sql.DB
	dsn    string
	driver string
	ctx    context.Context
	level  sql.IsolationLevel
	opts   []pgfence.Option // of that level
}

// each runs a test with each driver at each isolation level.
func each(t *testing.T, test func(t *testing.T, w *world)) {
	for driver := range drivers {
		for name, level := range levels {
			t.Run(driver+"/"+name, func(t *testing.T) {
				w := newWorld(t, driver)
				w.level, w.opts = level, []pgfence.Option{pgfence.Isolation(level)}
				test(t, w)
			})
		}
	}
}

// eachDriver runs a test with each driver, at the database's default level, which is READ COMMITTED.
func eachDriver(t *testing.T, test func(t *testing.T, w *world)) {
	for driver := range drivers {
		t.Run(driver, func(t *testing.T) { test(t, newWorld(t, driver)) })
	}
}

// free are databases that tests have done with: to empty one is much quicker than to make one.
var (
	free      = make(chan string, 64)
	databases atomic.Int64
)

// newWorld gives a test a database with a fence and a table of accounts: "a" has 100.
func newWorld(t *testing.T, driver string) *world {
	t.Helper()
	servertest.Need(t, sharedErr)
	var name string
	select {
	case name = <-free:
	default:
		name = fmt.Sprintf("test_%d", databases.Add(1))
		exec(t, open(t, "pgx", shared.DSN("postgres")), "CREATE DATABASE "+name)
	}
	t.Cleanup(func() { // after the test's connections have been closed
		if !t.Failed() {
			db := open(t, "pgx", shared.DSN(name))
			exec(t, db, "DROP SCHEMA public CASCADE; CREATE SCHEMA public; GRANT USAGE ON SCHEMA public TO PUBLIC")
			free <- name
		}
	})
	return fill(t, driver, shared.DSN(name))
}

// fill puts the tables of a world into an empty database.
func fill(t *testing.T, driver, dsn string) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	t.Cleanup(cancel)
	w := &world{DB: open(t, driver, dsn), dsn: dsn, driver: driver, ctx: ctx}
	must(t, pgfence.Migrate(ctx, w.DB))
	exec(t, w.DB, "CREATE TABLE account (id text PRIMARY KEY, balance bigint NOT NULL)")
	exec(t, w.DB, "INSERT INTO account VALUES ('a', 100)")
	return w
}

func open(t *testing.T, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(drivers[driver], dsn)
	must(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func exec(t *testing.T, db *sql.DB, statement string, args ...any) {
	t.Helper()
	if _, err := db.Exec(statement, args...); err != nil {
		t.Fatalf("%.80s: %v", statement, err)
	}
}

// holder gives a context that lives under a grant of lock job-x.
func (w *world) holder(token fence.Token) context.Context { return under(w.ctx, token) }

func under(ctx context.Context, token fence.Token) context.Context {
	return fence.NewContext(ctx, fence.Grant{Cluster: "cluster-1", Lock: "job-x", Token: token})
}

// tx is pgfence.Tx on resource "a" of this world.
func (w *world) tx(ctx context.Context, fn func(ctx context.Context, tx *sql.Tx) error) error {
	return pgfence.Tx(ctx, w.DB, "a", fn, w.opts...)
}

// set is a function for tx that writes the balance of account a.
func set(balance int) func(ctx context.Context, tx *sql.Tx) error {
	return func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE account SET balance = $1 WHERE id = 'a'", balance)
		return err
	}
}

// balance is what account a has, as anybody sees it.
func (w *world) balance(t *testing.T) int {
	t.Helper()
	return w.number(t, "SELECT balance FROM account WHERE id = 'a'")
}

func (w *world) number(t *testing.T, query string) (n int) {
	t.Helper()
	if err := w.QueryRow(query).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

func (w *world) has(t *testing.T, want int) {
	t.Helper()
	if got := w.balance(t); got != want {
		t.Fatalf("the balance is %d, want %d", got, want)
	}
}

// blocked waits until n sessions of the database wait for a lock.
func (w *world) blocked(t *testing.T, n int) {
	t.Helper()
	const query = "SELECT count(*) >= %d FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
	w.until(t, fmt.Sprintf(query, n))
}

// until asks again and again until the answer is true. It asks by a session of its own, which does not wait for those of the test.
func (w *world) until(t *testing.T, query string) {
	t.Helper()
	db := open(t, "pgx", w.dsn)
	defer db.Close()
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		var yes sql.NullBool // NULL where a figure is not there yet
		must(t, db.QueryRowContext(ctx, query).Scan(&yes))
		if yes.Bool {
			return
		}
		<-tick.C
	}
}
