package pgfence

import "strings"

// table is what stands under the name of the table of accepted grants.
type table struct {
	there       bool
	schema      string
	kind        string // pg_class.relkind: 'r' is a table, 'p' one in partitions, 'v' a view
	persistence string // pg_class.relpersistence: 'p', 'u' for UNLOGGED, 't' for temporary
	related     bool   // it is a partition, or has tables that inherit from it
	columns     int    // how many of the columns it has
	collated    int    // how many of its texts have the collation "C"
	keyed       bool   // resource is its key
	triggers    int    // how many of the triggers stand as schema.sql makes them
}

const (
	wantColumns  = 5
	wantCollated = 3
	wantTriggers = 3
)

// complete reports whether there is nothing left to do.
func (t table) complete() bool { return t.there && t.triggers == wantTriggers }

// problem says why the table cannot keep grants, "" if it can. Triggers that are missing or changed are none: they are put back.
func (t table) problem() string {
	switch {
	case t.persistence == "t":
		return "is hidden in this session by a temporary table"
	case t.kind != "r":
		return "is there already, and no ordinary table"
	case t.columns != wantColumns || !t.keyed:
		return "is there already, with other columns"
	case t.persistence != "p":
		return "is there already, as an UNLOGGED table, which a crash empties"
	case t.related:
		return "is there already, as a partition or with tables that inherit from it"
	case t.collated != wantCollated:
		return `is there already, with another collation than "C", by which two names may be one`
	}
	return ""
}

// form asks for a table. It is there if its row is seen: to_regclass also finds one that was committed after the query began, of
// which nothing else is seen yet. The trigger counts only if it fires always, for all rows and columns, and runs the function that stands
// in schema.sql: a line feed may have become two characters on the way through somebody's migration tool.
func (c config) form() string {
	return `
SELECT r.oid IS NOT NULL, COALESCE(encode(convert_to(n.nspname::text, 'UTF8'), 'hex'), ''),
  COALESCE(r.relkind::text, ''), COALESCE(r.relpersistence::text, ''), COALESCE(r.relispartition OR r.relhassubclass, false),
  (SELECT count(*) FROM pg_attribute a WHERE a.attrelid = t.oid AND a.attnotnull AND (a.attname, a.atttypid) IN (
    ('resource', 'text'::regtype), ('cluster', 'text'::regtype), ('lock', 'text'::regtype),
    ('token', 'int8'::regtype), ('accepted_at', 'timestamptz'::regtype))),
  (SELECT count(*) FROM pg_attribute a WHERE a.attrelid = t.oid AND a.attname IN ('resource', 'cluster', 'lock')
    AND a.attcollation = 'pg_catalog."C"'::regcollation),
  EXISTS (SELECT FROM pg_index i JOIN pg_attribute a ON a.attrelid = t.oid AND a.attname = 'resource'
    WHERE i.indrelid = t.oid AND i.indisprimary AND i.indkey::text = a.attnum::text),
  (SELECT count(*) FROM pg_trigger g JOIN pg_proc p ON p.oid = g.tgfoid JOIN pg_language l ON l.oid = p.prolang
    WHERE g.tgrelid = t.oid AND g.tgenabled = 'A' AND g.tgqual IS NULL AND g.tgattr::text = '' AND (g.tgname, g.tgtype) IN (
      ('quorumlock_keep_grant', ` + beforeUpdateOfRow + `), ('quorumlock_keep_row', ` + beforeDeleteOfRow + `),
      ('quorumlock_keep_rows', ` + beforeTruncate + `))
    AND l.lanname = 'plpgsql' AND translate(p.prosrc, chr(13), '') = ` + literal(keepBody()) + `)
FROM (SELECT to_regclass(` + literal(c.name()) + `)::oid AS oid) t
  LEFT JOIN pg_class r ON r.oid = t.oid LEFT JOIN pg_namespace n ON n.oid = r.relnamespace`
}

// The bits of pg_trigger.tgtype: 1 for each row, 2 before, 8 DELETE, 16 UPDATE, 32 TRUNCATE.
const (
	beforeUpdateOfRow = "19"
	beforeDeleteOfRow = "11"
	beforeTruncate    = "34"
)

// keepBody is the body of the function behind the triggers.
func keepBody() string {
	_, rest, _ := strings.Cut(schema, "$keep$")
	body, _, _ := strings.Cut(rest, "$keep$")
	return body
}
