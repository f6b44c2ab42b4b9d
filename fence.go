package quorumlock

import (
	"errors"
	"strconv"
	"sync"
)

// Token is a fencing token: it rises with every exclusive grant, for the whole life of a cluster name. Hand it to the
// resource with each write, and let the resource refuse a token lower than one it has accepted; then a holder that was
// paused past its lease cannot write over its successor. Zero is never a valid token.
//
// Tokens stay below 2^53, and are written as decimal strings in text and JSON all the same: a reader that takes numbers
// for floats must not round them.
type Token int64

// String gives the decimal form.
func (t Token) String() string { return strconv.FormatInt(int64(t), 10) }

// MarshalText gives the decimal form; with it JSON carries a token as a string.
func (t Token) MarshalText() ([]byte, error) { return strconv.AppendInt(nil, int64(t), 10), nil }

// UnmarshalText accepts what ParseToken accepts.
func (t *Token) UnmarshalText(b []byte) error {
	v, err := ParseToken(string(b))
	if err != nil {
		return err
	}
	*t = v
	return nil
}

// ParseToken reads the decimal form. Zero, a negative number, a sign or a leading zero is a *FieldError.
func ParseToken(s string) (Token, error) {
	bad := &FieldError{Field: "token", Value: s, Problem: "must be a positive decimal number"}
	if s == "" || s[0] < '1' || s[0] > '9' {
		return 0, bad
	}
	v, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, bad
	}
	return Token(v), nil
}

// Guard is a fence for resources inside one process: it remembers the highest token accepted for each resource and
// refuses lower ones. It protects what lives and dies with the process, since its memory does; a database must keep the
// highest token itself, in the transaction of the write.
//
// A Guard holds at most MaxGuarded resources. The zero value is ready. All methods are safe for concurrent use.
type Guard struct {
	mu      sync.Mutex
	highest map[string]*guarded
}

// MaxGuarded is the most resources one Guard remembers. Forgetting one would let a stale holder in, so a Guard that is
// full refuses new resources with ErrOverloaded instead.
const MaxGuarded = 1 << 20

type guarded struct {
	mu    sync.Mutex // held while a write runs: judging and writing are one step
	token Token
}

// Do runs write if t is not lower than any token accepted for resource before, and records t. Writes of one resource
// run one at a time, so that no write of a lower token can end after one of a higher token has begun. A stale token is
// a *StaleTokenError and write does not run. The error of write is returned as it is; the token counts as accepted all
// the same.
func (g *Guard) Do(resource string, t Token, write func() error) error {
	if t <= 0 {
		return &FieldError{Field: "token", Value: int64(t), Problem: "must be positive"}
	}
	e, err := g.entry(resource)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if t < e.token {
		return &StaleTokenError{Resource: resource, Token: t, Highest: e.token}
	}
	e.token = t
	return write()
}

// Check is Do without a write: it claims the resource for t, so that lower tokens are refused from now on.
func (g *Guard) Check(resource string, t Token) error {
	return g.Do(resource, t, func() error { return nil })
}

// Highest is the highest token accepted for resource, zero if none was.
func (g *Guard) Highest(resource string) Token {
	g.mu.Lock()
	e := g.highest[resource]
	g.mu.Unlock()
	if e == nil {
		return 0
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.token
}

var errGuardFull = errors.New("the guard remembers as many resources as it may")

func (g *Guard) entry(resource string) (*guarded, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if e := g.highest[resource]; e != nil {
		return e, nil
	}
	if len(g.highest) >= MaxGuarded {
		return nil, &WaitError{Op: "guard", Name: resource, Waiting: errGuardFull.Error(), Err: ErrOverloaded}
	}
	if g.highest == nil {
		g.highest = make(map[string]*guarded)
	}
	e := &guarded{}
	g.highest[resource] = e
	return e, nil
}
