package fence

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Grant is what a writer shows to a resource: which lock it holds, and by which grant. The zero Grant is valid nowhere.
type Grant struct {
	Cluster string // id of the cluster that granted (Node.ClusterID), so that a cluster founded anew can be told from its predecessor
	Lock    string // the lock's name
	Token   Token
}

// Check returns a *FieldError for the first part that is missing or breaks a rule. Every checker asks it before anything is written.
func (g Grant) Check() error {
	if err := checkText("Grant.Cluster", g.Cluster, MaxCluster); err != nil {
		return err
	}
	if err := checkText("Grant.Lock", g.Lock, MaxName); err != nil {
		return err
	}
	if g.Token <= 0 {
		return &FieldError{Field: "Grant.Token", Value: g.Token, Problem: "must be positive; the permits of a semaphore have no token, since their holders work at the same time"}
	}
	return nil
}

const (
	// MaxName is the longest name of a lock or a resource, in bytes.
	MaxName = 512
	// MaxCluster is the longest cluster id, in bytes.
	MaxCluster = 64
)

// CheckResource returns a *FieldError unless name is good for a resource: 1 to MaxName bytes of UTF-8 without control characters, as for locks.
func CheckResource(name string) error { return checkText("resource", name, MaxName) }

func checkText(field, s string, most int) error {
	switch {
	case s == "":
		return &FieldError{Field: field, Problem: "must not be empty"}
	case len(s) > most:
		return &FieldError{Field: field, Value: s, Problem: fmt.Sprintf("has %d bytes, %d are allowed", len(s), most)}
	case !utf8.ValidString(s):
		return &FieldError{Field: field, Value: s, Problem: "is not UTF-8"}
	case strings.ContainsFunc(s, unicode.IsControl):
		return &FieldError{Field: field, Value: s, Problem: "has control characters"}
	}
	return nil
}

// Judge decides whether a resource that accepted last may accept g: nil, a *WrongLockError, a *StaleTokenError, or a *FieldError
// for a name or grant that is not valid at all, or has a token above MaxToken. The zero last is a resource that has accepted
// nothing. It is the one rule behind all checkers; whoever writes another checker has to keep g, in the step that writes,
// whenever Judge returns nil.
func Judge(resource string, last, g Grant) error {
	if err := CheckResource(resource); err != nil {
		return err
	}
	if err := g.Check(); err != nil {
		return err
	}
	switch {
	case g.Token > MaxToken: // not in Check, which is asked of what is kept as well: that has to be read, however it came there
		return &FieldError{Field: "Grant.Token", Value: g.Token, Problem: "is higher than any token can be: once accepted, it would refuse all holders"}
	case last == Grant{}:
		return nil
	case last.Lock != g.Lock:
		return &WrongLockError{Resource: resource, Lock: g.Lock, Guard: last.Lock}
	case g.Token < last.Token, g.Token == last.Token && g.Cluster != last.Cluster:
		return &StaleTokenError{Resource: resource, Token: g.Token, Highest: last.Token}
	}
	return nil
}

type grantsKey struct{}

// NewContext gives a context that carries what one hold was granted: one grant, or of a MultiMutex one for each name. They take the place of what ctx
// carries already: who nests locks writes under the inner one.
//
// Contexts of a hold carry its grants already; NewContext is for grants that came over a wire of one's own.
func NewContext(ctx context.Context, grants ...Grant) context.Context {
	if ctx == nil {
		ctx = context.Background()
	}
	return context.WithValue(ctx, grantsKey{}, slices.Clone(grants))
}

// Grants gives all grants that ctx carries, for those who pass them on over a wire. Checkers ask FromContext.
func Grants(ctx context.Context) []Grant {
	return slices.Clone(carried(ctx))
}

// carried is for reading only. A nil ctx carries nothing, so that checkers refuse it as any without a grant.
func carried(ctx context.Context) []Grant {
	if ctx == nil {
		return nil
	}
	grants, _ := ctx.Value(grantsKey{}).([]Grant)
	return grants
}

// FromContext gives the grant that ctx carries for a resource. Among several, those of a MultiMutex, it is the one whose lock has the resource's
// name; if none has, the error is a *FieldError, and [For] picks one. Without any it is ErrNoGrant.
func FromContext(ctx context.Context, resource string) (Grant, error) {
	grants := carried(ctx)
	switch len(grants) {
	case 0:
		return Grant{}, fmt.Errorf("%s: %w", resource, ErrNoGrant)
	case 1:
		return grants[0], nil
	}
	for _, g := range grants {
		if g.Lock == resource {
			return g, nil
		}
	}
	return Grant{}, &FieldError{Field: "resource", Value: resource, Problem: fmt.Sprintf("is the name of none of the %d locks held; say by fence.For which one guards it", len(grants))}
}

// For gives a context that carries, of the grants in ctx, only that of the lock named: for a resource whose name is none of those that a MultiMutex holds. If there is
// no such grant the context carries none.
func For(ctx context.Context, lock string) context.Context {
	for _, g := range carried(ctx) {
		if g.Lock == lock {
			return NewContext(ctx, g)
		}
	}
	return NewContext(ctx)
}
