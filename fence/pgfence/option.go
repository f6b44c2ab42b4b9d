package pgfence

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/quorumlock/quorumlock/fence"
)

// DefaultTable is the table of accepted grants unless [Table] names another.
const DefaultTable = "quorumlock_fence"

// Option changes a default. One that is not valid makes the function it is given to return a *fence.FieldError before the
// database is asked anything.
type Option func(*config)

type config struct {
	schema    string // "" leaves it to search_path
	table     string
	isolation sql.IsolationLevel
}

// Table names the table of accepted grants: "name", found by the session's search_path, or "schema.name". Letter case counts.
// All writers of a resource have to name the same table; where their search_path may differ, name the schema too. Without one, a
// temporary table of that name takes the fence's place in its session.
func Table(name string) Option {
	return func(c *config) {
		c.schema, c.table = "", name
		if schema, table, ok := strings.Cut(name, "."); ok {
			c.schema, c.table = schema, table
			if schema == "" {
				c.table = name // a dot in it: not valid
			}
		}
	}
}

// Isolation is the level of the transactions that Tx and Store begin; by default that of the database. Claims are right at
// each. [Claim] is called in a transaction that has begun and does not look at it.
func Isolation(level sql.IsolationLevel) Option {
	return func(c *config) { c.isolation = level }
}

func configure(opts []Option) (config, error) {
	c := config{table: DefaultTable}
	var missing error
	for i, opt := range opts {
		if opt == nil {
			missing = errors.Join(missing, &fence.FieldError{Field: fmt.Sprintf("opts[%d]", i), Problem: "must not be nil"})
			continue
		}
		opt(&c)
	}
	return c, errors.Join(missing, c.checkNames(), c.checkIsolation())
}

// maxTable leaves room for what is appended to the name of a table for its function: PostgreSQL cuts names at 63 bytes, and
// two of them may not become one.
const (
	maxSchema = 63
	maxTable  = 58
)

func (c config) checkNames() error {
	if c.schema != "" {
		if problem := badName(c.schema, maxSchema); problem != "" {
			return &fence.FieldError{Field: "Table", Value: c.schema, Problem: "its schema " + problem}
		}
	}
	if problem := badName(c.table, maxTable); problem != "" {
		return &fence.FieldError{Field: "Table", Value: c.table, Problem: problem}
	}
	return nil
}

// badName tells what is wrong with a name, "" if nothing is. Quotes and dots would be possible, and are always a mistake.
func badName(s string, most int) string {
	switch {
	case s == "":
		return "must not be empty"
	case len(s) > most:
		return fmt.Sprintf("has %d bytes, %d are allowed", len(s), most)
	case !utf8.ValidString(s):
		return "is not UTF-8"
	case strings.ContainsFunc(s, unicode.IsControl):
		return "has control characters"
	case strings.ContainsAny(s, `."'\`):
		return "has a dot, quote or backslash"
	}
	return ""
}

func (c config) checkIsolation() error {
	switch c.isolation {
	case sql.LevelDefault, sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable:
		return nil
	}
	const problem = "must be the default, READ COMMITTED, REPEATABLE READ or SERIALIZABLE"
	return &fence.FieldError{Field: "Isolation", Value: c.isolation, Problem: problem}
}

// name is the table as SQL.
func (c config) name() string { return c.qualified("") }

// function is the function behind the table's triggers as SQL.
func (c config) function() string { return c.qualified("_keep") }

func (c config) qualified(suffix string) string {
	name := quoted(c.table + suffix)
	if c.schema != "" {
		name = quoted(c.schema) + "." + name
	}
	return name
}

// quoted is a name as SQL. Options have no quotes in theirs; the schema that a table is found in may.
func quoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
