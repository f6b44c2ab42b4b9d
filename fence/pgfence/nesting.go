package pgfence

import (
	"context"
	"database/sql"
	"slices"
	"sync"

	"github.com/quorumlock/quorumlock/fence"
)

type txKey struct{}

// transaction is one that Tx or Store.Do has begun, as the context of its function carries it. All methods may be called on nil.
type transaction struct {
	tx     *sql.Tx
	db     *sql.DB
	parent *transaction // the one in whose function this one began, nil for none

	mu        sync.Mutex
	resources []string // whose rows it has locked
	refused   bool     // Claim has rolled it back
}

// enclosing is the innermost transaction that ctx carries, nil if there is none.
func enclosing(ctx context.Context) *transaction {
	t, _ := ctx.Value(txKey{}).(*transaction)
	return t
}

// TxFrom gives the transaction in which a function of Tx or of Store.Do runs, from the context it was called with.
func TxFrom(ctx context.Context) (*sql.Tx, bool) {
	t := enclosing(ctx)
	if t == nil {
		return nil, false
	}
	return t.tx, true
}

// of is the one among t and those around it that tx belongs to, nil if none does.
func (t *transaction) of(tx *sql.Tx) *transaction {
	for ; t != nil && t.tx != tx; t = t.parent {
	}
	return t
}

// checkNesting refuses a transaction on a resource that one around it has claimed: it would wait for the row until ctx ends, since
// the other one waits for it.
func checkNesting(ctx context.Context, db *sql.DB, resource string) error {
	for t := enclosing(ctx); t != nil; t = t.parent {
		if t.db == db && t.holds(resource) {
			const problem = "is claimed by a transaction in the context, which would be waited for: use that one"
			return &fence.FieldError{Field: "resource", Value: resource, Problem: problem}
		}
	}
	return nil
}

func (t *transaction) holds(resource string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Contains(t.resources, resource)
}

// claimed notes a resource whose row the transaction has locked.
func (t *transaction) claimed(resource string) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !slices.Contains(t.resources, resource) {
		t.resources = append(t.resources, resource)
	}
}

// refuse notes that Claim ends the transaction: that it has been ended then proves that nothing was committed.
func (t *transaction) refuse() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.refused = true
}

func (t *transaction) wasRefused() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.refused
}
