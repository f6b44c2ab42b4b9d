package pgfence

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/quorumlock/quorumlock/fence"
)

// Claim lets the transaction go on only if resource accepts the grant that ctx carries (see fence.Judge), and keeps the grant
// if the transaction commits. It holds the lock of the resource's row until then, so it is the first statement: what is read
// after it is what no predecessor can change any more.
//
// The errors of a refusal are *fence.StaleTokenError, *fence.WrongLockError, *fence.FieldError and fence.ErrNoGrant. After
// any error the transaction has been rolled back and is over, so that nobody can commit it by mistake; its methods return
// sql.ErrTxDone.
//
// A claim that waits for a transaction which then commits fails with SQLSTATE 40001 under REPEATABLE READ and SERIALIZABLE:
// begin again, with the same grant, as [Tx] does. A transaction may claim several resources; if all writers do so in one
// order they do not deadlock. Going back to a savepoint from before the claim takes the claim back too.
//
// Within the function of a Tx give it that function's ctx: a Tx of the same resource further in is then refused. Of a
// transaction that the caller began no context tells, so there a Tx of a resource that it has claimed waits for it until ctx
// ends.
//
// ctx bounds the wait for the row.
func Claim(ctx context.Context, tx *sql.Tx, resource string, opts ...Option) error {
	if tx == nil {
		return &fence.FieldError{Field: "tx", Problem: "must not be nil"}
	}
	t := enclosing(ctx).of(tx)
	c, err := configure(opts)
	if err == nil {
		err = c.claim(ctx, tx, resource)
	}
	if err != nil {
		t.refuse()
		_ = tx.Rollback() // of the two errors the first is the reason
		return err
	}
	t.claimed(resource)
	return nil
}

func (c config) claim(ctx context.Context, tx *sql.Tx, resource string) error {
	g, err := shown(ctx, resource)
	if err != nil {
		return err
	}
	result, err := tx.ExecContext(ctx, c.claimText(resource, g))
	if err != nil {
		return claiming(ctx, resource, err)
	}
	rows, err := result.RowsAffected()
	if err != nil {
		return claiming(ctx, resource, err)
	}
	if rows == 1 {
		return nil
	}
	return c.refusal(ctx, tx, resource, g)
}

func claiming(ctx context.Context, resource string, err error) error {
	hint := ""
	if sqlState(err) == undefinedTable {
		hint = " (Migrate makes it)"
	}
	return fmt.Errorf("pgfence: claim %q: %w%s", resource, withContext(ctx, err), hint)
}

const undefinedTable = "42P01"

// shown is the grant for the resource, if both are valid.
func shown(ctx context.Context, resource string) (fence.Grant, error) {
	g, err := fence.FromContext(ctx, resource)
	if err != nil {
		return fence.Grant{}, err
	}
	return g, fence.Judge(resource, fence.Grant{}, g)
}

// claimText is the claim as one statement, which touches one row or, in a refusal, none. Two things in it are on purpose:
//
// It writes the row even if the grant is the one that is kept. A lock of the row alone would do under READ COMMITTED; under
// REPEATABLE READ whoever waited for it would go on with a snapshot from before the other's commit, while a row that was
// written makes it fail with 40001.
//
// Its values are constants, not parameters: a statement without parameters is one round trip with every driver, in every
// mode, through every pooler; with them lib/pq takes two, and pgx prepares a statement that a pooler may not know on the next
// connection.
func (c config) claimText(resource string, g fence.Grant) string {
	return "INSERT INTO " + c.name() + " AS f (resource, cluster, lock, token) VALUES (" +
		literal(resource) + ", " + literal(g.Cluster) + ", " + literal(g.Lock) + ", " + g.Token.String() + ") " +
		"ON CONFLICT (resource) DO UPDATE SET cluster = EXCLUDED.cluster, token = EXCLUDED.token, accepted_at = EXCLUDED.accepted_at " +
		"WHERE f.lock = EXCLUDED.lock AND (f.token < EXCLUDED.token OR f.token = EXCLUDED.token AND f.cluster = EXCLUDED.cluster)"
}

// literal is a text as a constant of SQL. Text that could mean anything but itself, under some setting or encoding, goes as
// hexadecimal digits: there is nothing to escape in those, hence nothing to escape wrongly. The rest stays readable in the
// server's log.
func literal(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return r > unicode.MaxASCII || r == '\'' || r == '\\' || r < ' ' }) {
		return "convert_from(decode('" + hex.EncodeToString([]byte(s)) + "', 'hex'), 'UTF8')"
	}
	return "'" + s + "'"
}

// refusal tells why a claim touched no row. The refused claim holds the lock of the row all the same, so what is read here is
// what it was judged by.
func (c config) refusal(ctx context.Context, tx *sql.Tx, resource string, g fence.Grant) error {
	last, err := c.accepted(ctx, tx, resource)
	if err != nil {
		return claiming(ctx, resource, fmt.Errorf("refused, but why could not be read: %w", err))
	}
	if err := fence.Judge(resource, last, g); err != nil {
		return err
	}
	return claiming(ctx, resource,
		fmt.Errorf("no row was written under a grant that is good: is there a rule or a trigger of somebody else on %s?", c.name()))
}

// accepted is the grant that the resource's row keeps. Its texts come as hexadecimal digits of their UTF-8: not every driver
// asks the server to translate from the encoding of the database.
func (c config) accepted(ctx context.Context, tx *sql.Tx, resource string) (g fence.Grant, err error) {
	var cluster, lock string
	query := "SELECT encode(convert_to(cluster, 'UTF8'), 'hex'), encode(convert_to(lock, 'UTF8'), 'hex'), token FROM " +
		c.name() + " WHERE resource = " + literal(resource)
	if err := ask(ctx, tx, query, &cluster, &lock, &g.Token); err != nil {
		return g, err
	}
	var errs [2]error
	g.Cluster, errs[0] = unhex(cluster)
	g.Lock, errs[1] = unhex(lock)
	return g, errors.Join(errs[:]...)
}

func unhex(digits string) (string, error) {
	text, err := hex.DecodeString(digits)
	return string(text), err
}
