package pgtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/fence/pgfence"
)

// Instances that start together migrate together.
func TestMigrateAtOnce(t *testing.T) {
	eachDriver(t, func(t *testing.T, w *world) {
		dsn := w.dsn + "&default_transaction_isolation=serializable" // the most unfriendly one
		var instances []*sql.DB                                      // with connections of their own
		for range 8 {
			instances = append(instances, open(t, w.driver, dsn))
		}
		const rounds, tables = 8, 4
		for round := range rounds {
			var all sync.WaitGroup
			for i, db := range instances {
				for n := range tables {
					all.Go(func() {
						if err := pgfence.Migrate(w.ctx, db, pgfence.Table(fmt.Sprintf("fence_%d_%d", round, n))); err != nil {
							t.Errorf("instance %d: %v", i, err)
						}
					})
				}
			}
			all.Wait()
		}
		for n := range tables {
			guarded(t, w, fmt.Sprintf("fence_%d_%d", rounds-1, n))
		}
	})
}

// Whoever forgets to migrate is told what to do.
func TestWithoutMigrate(t *testing.T) {
	eachDriver(t, func(t *testing.T, w *world) {
		err := pgfence.Tx(w.holder(41), w.DB, "a", set(1), pgfence.Table("forgotten"))
		if err == nil || stateOf(err) != "42P01" || !strings.Contains(err.Error(), "Migrate") {
			t.Errorf("%v", err)
		}
		must(t, pgfence.Migrate(w.ctx, w.DB, pgfence.Table("forgotten")))
		must(t, pgfence.Tx(w.holder(41), w.DB, "a", set(1), pgfence.Table("forgotten")))
	})
}

// Where the table stands already Migrate neither waits for writers, nor makes them wait, nor needs rights.
func TestMigrateAgain(t *testing.T) {
	eachDriver(t, func(t *testing.T, w *world) {
		exec(t, w.DB, `DO $$ BEGIN CREATE ROLE writer; EXCEPTION WHEN duplicate_object THEN END $$`)
		exec(t, w.DB, "GRANT SELECT, INSERT, UPDATE ON quorumlock_fence TO writer")
		must(t, w.tx(w.holder(41), func(ctx context.Context, tx *sql.Tx) error {
			db := open(t, w.driver, w.dsn)
			db.SetMaxOpenConns(1)
			exec(t, db, "SET ROLE writer")
			must(t, pgfence.Migrate(w.ctx, db))
			return pgfence.Tx(w.holder(41), db, "b", nothing) // which is all that a writer needs
		}))
	})
}

// A trigger that somebody has removed or switched off comes back.
func TestMigrateMends(t *testing.T) {
	eachDriver(t, func(t *testing.T, w *world) {
		for _, harm := range []string{
			"DROP TRIGGER quorumlock_keep_grant ON quorumlock_fence",
			"ALTER TABLE quorumlock_fence DISABLE TRIGGER ALL",
			"DROP FUNCTION quorumlock_fence_keep CASCADE",
			"CREATE OR REPLACE FUNCTION quorumlock_fence_keep() RETURNS trigger LANGUAGE plpgsql AS" +
				" $$ BEGIN RETURN COALESCE(NEW, OLD); END $$",
			"CREATE OR REPLACE TRIGGER quorumlock_keep_row BEFORE DELETE ON quorumlock_fence FOR EACH ROW WHEN (OLD.token < 0)" +
				" EXECUTE FUNCTION quorumlock_fence_keep(); ALTER TABLE quorumlock_fence ENABLE ALWAYS TRIGGER quorumlock_keep_row",
			"CREATE OR REPLACE TRIGGER quorumlock_keep_grant BEFORE UPDATE OF accepted_at ON quorumlock_fence FOR EACH ROW" +
				" EXECUTE FUNCTION quorumlock_fence_keep(); ALTER TABLE quorumlock_fence ENABLE ALWAYS TRIGGER quorumlock_keep_grant",
			"CREATE OR REPLACE TRIGGER quorumlock_keep_rows AFTER TRUNCATE ON quorumlock_fence" +
				" EXECUTE FUNCTION suppress_redundant_updates_trigger(); ALTER TABLE quorumlock_fence ENABLE ALWAYS TRIGGER quorumlock_keep_rows",
		} {
			exec(t, w.DB, harm)
			must(t, pgfence.Migrate(w.ctx, w.DB))
			guarded(t, w, "quorumlock_fence")
		}
	})
}

// The table that claims find by the search_path is the one that is mended, though it lies in a later schema than the one in
// which a new table would be made: an empty one there would hide all that has been accepted.
func TestMigrateMendsWhereClaimsLook(t *testing.T) {
	eachDriver(t, func(t *testing.T, w *world) {
		const schema = `"it's ""here"""`
		exec(t, w.DB, "CREATE SCHEMA front; CREATE SCHEMA "+schema+"; ALTER TABLE quorumlock_fence SET SCHEMA "+schema)
		t.Cleanup(func() { exec(t, w.DB, "DROP SCHEMA front CASCADE; DROP SCHEMA "+schema+" CASCADE") })
		db := open(t, w.driver, w.dsn+"&search_path="+url.PathEscape("front,"+schema))
		ofA := func(token fence.Token) error { return pgfence.Tx(w.holder(token), db, "a", nothing) }
		must(t, ofA(42))
		for _, harm := range []string{
			"ALTER TABLE quorumlock_fence DISABLE TRIGGER quorumlock_keep_rows",
			"DROP FUNCTION public.quorumlock_fence_keep CASCADE",
		} {
			exec(t, db, harm)
			must(t, pgfence.Migrate(w.ctx, db))
			if err := ofA(41); !errors.Is(err, fence.ErrStaleToken) {
				t.Fatalf("after %s and Migrate a stale claim: %v", harm, err)
			}
			other := *w
			other.DB = db
			guarded(t, &other, "quorumlock_fence")
		}
		if n := w.number(t, "SELECT count(*) FROM pg_class WHERE relname = 'quorumlock_fence'"); n != 1 {
			t.Errorf("%d tables", n)
		}
	})
}

// A table with the right columns that would forget what it has accepted, or take two names for one, is refused.
func TestTableThatWouldForget(t *testing.T) {
	eachDriver(t, func(t *testing.T, w *world) {
		exec(t, w.DB, "DROP COLLATION IF EXISTS fold; CREATE COLLATION fold (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")
		columns := func(collation string) string {
			return strings.ReplaceAll("(resource text # NOT NULL PRIMARY KEY, cluster text # NOT NULL, lock text # NOT NULL, "+
				"token bigint NOT NULL, accepted_at timestamptz NOT NULL DEFAULT now())", "#", "COLLATE "+collation)
		}
		for name, make := range map[string]string{
			"unlogged":    "CREATE UNLOGGED TABLE unlogged (LIKE quorumlock_fence INCLUDING ALL)",
			"folded":      "CREATE TABLE folded " + columns("fold"),
			"by_locale":   "CREATE TABLE by_locale " + columns(`"default"`),
			"partitioned": "CREATE TABLE partitioned " + columns(`"C"`) + " PARTITION BY HASH (resource)",
			"partition": "CREATE TABLE whole (LIKE quorumlock_fence INCLUDING ALL) PARTITION BY HASH (resource); " +
				"CREATE TABLE partition PARTITION OF whole FOR VALUES WITH (MODULUS 1, REMAINDER 0)",
			"parent":    "CREATE TABLE parent (LIKE quorumlock_fence INCLUDING ALL); CREATE TABLE heir () INHERITS (parent)",
			"view":      "CREATE VIEW view AS SELECT * FROM quorumlock_fence",
			"temporary": "CREATE TEMP TABLE temporary (LIKE quorumlock_fence INCLUDING ALL)",
		} {
			db := open(t, w.driver, w.dsn)
			db.SetMaxOpenConns(1) // the temporary table is that of a session
			exec(t, db, make)
			var field *fence.FieldError
			if err := pgfence.Migrate(w.ctx, db, pgfence.Table(name)); !errors.As(err, &field) || field.Field != "Table" {
				t.Errorf("%s: %v", name, err)
			}
			if n := w.number(t, "SELECT count(*) FROM pg_trigger WHERE tgrelid = to_regclass('"+name+"')"); n != 0 {
				t.Errorf("%s: has %d triggers", name, n)
			}
			db.Close()
		}
		exec(t, w.DB, "CREATE TABLE good "+columns(`"C"`))
		must(t, pgfence.Migrate(w.ctx, w.DB, pgfence.Table("good"))) // which shows that it was not for the columns
		must(t, pgfence.Tx(w.holder(41), w.DB, "a", nothing, pgfence.Table("good")))
	})
}

func TestOtherTable(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		exec(t, w.DB, "DROP TABLE quorumlock_fence")
		exec(t, w.DB, `DROP SCHEMA IF EXISTS "Über-Schema" CASCADE; CREATE SCHEMA "Über-Schema"`)
		const name = "Über-Schema.fence of $1"
		opts := append(w.opts, pgfence.Table(name))
		must(t, pgfence.Migrate(w.ctx, w.DB, opts...))
		guarded(t, w, `"Über-Schema"."fence of $1"`)
		must(t, pgfence.Tx(w.holder(42), w.DB, "a", set(42), opts...))
		if err := pgfence.Tx(w.holder(41), w.DB, "a", set(41), opts...); !errors.Is(err, fence.ErrStaleToken) {
			t.Errorf("stale: %v", err)
		}
		tx, err := w.BeginTx(w.ctx, nil)
		must(t, err)
		if err := pgfence.Claim(w.holder(41), tx, "a", opts...); !errors.Is(err, fence.ErrStaleToken) {
			t.Errorf("stale: %v", err)
		}
		w.has(t, 42)
	})
}

// Triggers that forbid to delete are put on no table of somebody else.
func TestTableOfSomebodyElse(t *testing.T) {
	eachDriver(t, func(t *testing.T, w *world) {
		exec(t, w.DB, "CREATE TABLE keyless (LIKE quorumlock_fence)")
		for _, name := range []string{"account", "keyless"} {
			var field *fence.FieldError
			if err := pgfence.Migrate(w.ctx, w.DB, pgfence.Table(name)); !errors.As(err, &field) || field.Field != "Table" {
				t.Errorf("%s: %v", name, err)
			}
		}
		exec(t, w.DB, "DELETE FROM account")
	})
}

// A file that somebody's tool has given other line ends has the same function in it: there is nothing to mend, so no right to do it
// is needed.
func TestSchemaWithOtherLineEnds(t *testing.T) {
	eachDriver(t, func(t *testing.T, w *world) {
		exec(t, w.DB, "DROP TABLE quorumlock_fence")
		text, err := pgfence.Schema()
		must(t, err)
		exec(t, w.DB, strings.ReplaceAll(text, "\n", "\r\n"))
		exec(t, w.DB, `DO $$ BEGIN CREATE ROLE writer; EXCEPTION WHEN duplicate_object THEN END $$`)
		db := open(t, w.driver, w.dsn)
		db.SetMaxOpenConns(1)
		exec(t, db, "SET ROLE writer")
		must(t, pgfence.Migrate(w.ctx, db))
		guarded(t, w, "quorumlock_fence")
	})
}

// The text for other migration tools makes what Migrate makes, and may run again.
func TestSchema(t *testing.T) {
	eachDriver(t, func(t *testing.T, w *world) {
		exec(t, w.DB, "DROP TABLE quorumlock_fence")
		for _, opts := range [][]pgfence.Option{nil, {pgfence.Table("public.other")}} {
			text, err := pgfence.Schema(opts...)
			must(t, err)
			exec(t, w.DB, text)
			exec(t, w.DB, text)
		}
		guarded(t, w, "quorumlock_fence")
		guarded(t, w, "public.other")
	})
	text, err := pgfence.Schema()
	must(t, err)
	file, err := os.ReadFile(filepath.Join("..", "schema.sql"))
	must(t, err)
	if text != string(file) {
		t.Error("Schema is not schema.sql")
	}
	if text, err = pgfence.Schema(pgfence.Table("s.t")); err != nil || strings.Contains(text, pgfence.DefaultTable) {
		t.Errorf("the default table is in the text for another one: %v", err)
	}
}

// guarded fails the test unless the database refuses to lower or forget what the table holds, and lets a higher token in.
func guarded(t *testing.T, w *world, table string) {
	t.Helper()
	exec(t, w.DB, "INSERT INTO "+table+" (resource, cluster, lock, token) VALUES ('guarded', 'c', 'l', 42) ON CONFLICT DO NOTHING")
	was := w.number(t, "SELECT token FROM "+table+" WHERE resource = 'guarded'")
	for what, statement := range map[string]string{
		"delete":            "DELETE FROM " + table,
		"delete of one":     "DELETE FROM " + table + " WHERE resource = 'guarded'",
		"truncate":          "TRUNCATE " + table,
		"lower token":       "UPDATE " + table + " SET token = token - 1",
		"another lock":      "UPDATE " + table + " SET lock = 'other', token = token + 1",
		"another resource":  "UPDATE " + table + " SET resource = resource || '2', token = token + 1",
		"another cluster":   "UPDATE " + table + " SET cluster = 'other'",
		"no lock":           "UPDATE " + table + " SET lock = NULL",
		"no token":          "UPDATE " + table + " SET token = NULL",
		"as a replica does": "SET session_replication_role = replica; DELETE FROM " + table,
		"impossible token":  "INSERT INTO " + table + " (resource, cluster, lock, token) VALUES ('x', 'c', 'l', 0)",
		"upsert without rule": "INSERT INTO " + table + " (resource, cluster, lock, token) VALUES ('guarded', 'c', 'l', 1)" +
			" ON CONFLICT (resource) DO UPDATE SET token = EXCLUDED.token",
	} {
		if _, err := w.Exec(statement); stateOf(err) != "23000" && stateOf(err) != "23502" && stateOf(err) != "23514" {
			t.Errorf("%s: %s: %v", table, what, err)
		}
	}
	exec(t, w.DB, "UPDATE "+table+" SET token = token + 1 WHERE resource = 'guarded'")
	if is := w.number(t, "SELECT token FROM "+table+" WHERE resource = 'guarded'"); is != was+1 {
		t.Errorf("%s: the token was %d and is %d", table, was, is)
	}
}

// Without the triggers a row deleted or lowered lets a stale holder in; with them the database refuses the deed.
func TestPitfallDeletedRow(t *testing.T) {
	eachDriver(t, func(t *testing.T, w *world) {
		for _, deed := range []string{"DELETE FROM quorumlock_fence", "TRUNCATE quorumlock_fence", "UPDATE quorumlock_fence SET token = 1"} {
			exec(t, w.DB, "ALTER TABLE quorumlock_fence DISABLE TRIGGER ALL")
			must(t, w.tx(w.holder(42), set(42)))
			exec(t, w.DB, deed)
			must(t, w.tx(w.holder(41), set(41))) // the fault
			must(t, pgfence.Migrate(w.ctx, w.DB))
			must(t, w.tx(w.holder(42), set(42)))
			if _, err := w.Exec(deed); stateOf(err) != "23000" {
				t.Errorf("%s: %v", deed, err)
			}
			start(func() error { return w.tx(w.holder(41), set(41)) }).end(t, fence.ErrStaleToken)
			w.has(t, 42)
		}
	})
}
