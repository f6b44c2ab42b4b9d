package roundtrip

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/fence/pgfence"
	"github.com/quorumlock/quorumlock/internal/servers"
	"github.com/quorumlock/quorumlock/internal/servers/servertest"
)

var (
	roundsWanted = flag.Int("rounds", 6, "rounds of TestRounds")
	together     = flag.Int("together", 6, "how many of them run side by side")
)

// bound is for what a test asks of a server or of a cluster that works, far above what it takes.
const bound = time.Minute

var (
	postgres    *servers.PostgresServer
	postgresErr error
)

func TestMain(m *testing.M) {
	flag.Parse()
	if text := os.Getenv(memberVariable); text != "" {
		os.Exit(memberMain(text))
	}
	// Rounds wait more than they work, so they are not bound to the number of processors.
	if err := flag.Set("test.parallel", strconv.Itoa(*together)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	dir, err := os.MkdirTemp("", "roundtrip")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_ = os.Chmod(dir, 0o711) // the server may run as another user
	postgres, postgresErr = servers.Postgres(context.Background(), filepath.Join(dir, "data"),
		"fsync=off", "synchronous_commit=off", "max_connections=200", "log_min_messages=fatal")
	code := m.Run()
	if postgresErr == nil {
		postgres.Stop()
	}
	_ = os.RemoveAll(dir)
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// database is the fenced resource: each lock guards the rows that bear its name.
type database struct{ *sql.DB }

func openDatabase(t *testing.T) database {
	t.Helper()
	servertest.Need(t, postgresErr)
	db, err := sql.Open("pgx", postgres.DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(80)
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	if err := pgfence.Migrate(ctx, db); err != nil {
		t.Fatal(err)
	}
	// An id is taken under the lock of the fence's row, so within a resource ids are in the order of the commits.
	const table = "CREATE TABLE written (id bigserial PRIMARY KEY, resource text NOT NULL, token bigint NOT NULL, cluster text NOT NULL, writer text NOT NULL)"
	if _, err := db.ExecContext(ctx, table); err != nil {
		t.Fatal(err)
	}
	return database{db}
}

// write adds a row to the resource named as the lock, under the grant that ctx carries.
func (d database) write(ctx context.Context, lock, writer string) error {
	g, err := fence.FromContext(ctx, lock)
	if err != nil {
		return err
	}
	return pgfence.Tx(ctx, d.DB, lock, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO written (resource, token, cluster, writer) VALUES ($1, $2, $3, $4)", lock, int64(g.Token), g.Cluster, writer)
		return err
	})
}

func (d database) number(t *testing.T, query string, args ...any) (n int) {
	t.Helper()
	if err := d.QueryRow(query, args...).Scan(&n); err != nil {
		t.Fatalf("%.60s: %v", query, err)
	}
	return n
}

// ledger has every token that was granted in a round, by whichever cluster.
type ledger struct {
	t *testing.T

	mu      sync.Mutex
	seen    map[fence.Token]bool
	of      map[string][]fence.Grant // by lock
	highest fence.Token
}

// note is called while the lock is held. No token may come twice, and those of a lock rise.
func (l *ledger) note(g fence.Grant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen[g.Token] {
		l.t.Errorf("token %v was granted twice", g.Token)
	}
	if of := l.of[g.Lock]; len(of) > 0 && g.Token <= of[len(of)-1].Token {
		l.t.Errorf("%s: token %v after %v", g.Lock, g.Token, of[len(of)-1].Token)
	}
	l.seen[g.Token] = true
	l.of[g.Lock] = append(l.of[g.Lock], g)
	l.highest = max(l.highest, g.Token)
}

func (l *ledger) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.seen)
}

func (l *ledger) top() fence.Token {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.highest
}

// above counts the tokens above one.
func (l *ledger) above(token fence.Token) (n int) {
	for _, g := range l.all() {
		if g.Token > token {
			n++
		}
	}
	return n
}

func (l *ledger) all() (list []fence.Grant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, of := range l.of {
		list = append(list, of...)
	}
	return list
}

// eventually polls a condition until it is met.
func eventually(t *testing.T, within time.Duration, what string, met func() bool) {
	t.Helper()
	for end := time.Now().Add(within); !met(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, within)
		}
	}
}
