package fence_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/fence"
)

func TestTokenText(t *testing.T) {
	const token = fence.Token(1<<53 - 1)
	b, err := json.Marshal(map[string]fence.Token{"token": token})
	if err != nil || string(b) != `{"token":"9007199254740991"}` {
		t.Fatalf("marshalled %s, %v", b, err)
	}
	var back map[string]fence.Token
	if err := json.Unmarshal(b, &back); err != nil || back["token"] != token {
		t.Errorf("read back %v, %v", back, err)
	}
	for _, bad := range []string{"", "0", "-1", "+1", "01", " 1", "1 ", "1.0", "1e3", "9223372036854775808", "x"} {
		if v, err := fence.ParseToken(bad); !errors.Is(err, fence.ErrInvalid) {
			t.Errorf("ParseToken(%q) = %v, %v", bad, v, err)
		}
	}
}

// A token that comes as a JSON number has been through somebody's float, perhaps, so it is not taken.
func TestTokenIsNotAJSONNumber(t *testing.T) {
	var token fence.Token
	if err := json.Unmarshal([]byte(`9007199254740993`), &token); err == nil {
		t.Errorf("read as %v", token)
	}
}

func grant(token fence.Token) fence.Grant {
	return fence.Grant{Cluster: "c1", Lock: "job-x", Token: token}
}

func with(g fence.Grant) context.Context { return fence.NewContext(context.Background(), g) }

func TestJudge(t *testing.T) {
	last := grant(42)
	for name, test := range map[string]struct {
		resource string
		last, g  fence.Grant
		want     error
	}{
		"first":                        {"r", fence.Grant{}, grant(1), nil},
		"holder again":                 {"r", last, grant(42), nil},
		"successor":                    {"r", last, grant(43), nil},
		"stale":                        {"r", last, grant(41), fence.ErrStaleToken},
		"cluster founded anew":         {"r", last, fence.Grant{Cluster: "c2", Lock: "job-x", Token: 43}, nil},
		"lower token of another":       {"r", last, fence.Grant{Cluster: "c2", Lock: "job-x", Token: 41}, fence.ErrStaleToken},
		"equal token of another":       {"r", last, fence.Grant{Cluster: "c2", Lock: "job-x", Token: 42}, fence.ErrStaleToken},
		"another lock":                 {"r", last, fence.Grant{Cluster: "c1", Lock: "job-y", Token: 99}, fence.ErrWrongLock},
		"another lock, lower":          {"r", last, fence.Grant{Cluster: "c1", Lock: "job-y", Token: 1}, fence.ErrWrongLock},
		"no token":                     {"r", fence.Grant{}, grant(0), fence.ErrInvalid},
		"negative token":               {"r", fence.Grant{}, grant(-1), fence.ErrInvalid},
		"highest token":                {"r", last, grant(fence.MaxToken), nil},
		"a time in nanoseconds":        {"r", last, grant(1_796_157_310_875_344_000), fence.ErrInvalid},
		"token too high":               {"r", last, grant(fence.MaxToken + 1), fence.ErrInvalid},
		"no lock":                      {"r", fence.Grant{}, fence.Grant{Cluster: "c1", Token: 1}, fence.ErrInvalid},
		"no cluster":                   {"r", fence.Grant{}, fence.Grant{Lock: "l", Token: 1}, fence.ErrInvalid},
		"no resource":                  {"", fence.Grant{}, grant(1), fence.ErrInvalid},
		"resource with a zero byte":    {"a\x00", fence.Grant{}, grant(1), fence.ErrInvalid},
		"resource that is not UTF-8":   {"\xff", fence.Grant{}, grant(1), fence.ErrInvalid},
		"resource that is too long":    {strings.Repeat("x", fence.MaxName+1), fence.Grant{}, grant(1), fence.ErrInvalid},
		"resource of the longest name": {strings.Repeat("x", fence.MaxName), fence.Grant{}, grant(1), nil},
	} {
		t.Run(name, func(t *testing.T) {
			err := fence.Judge(test.resource, test.last, test.g)
			if (test.want == nil) != (err == nil) || !errors.Is(err, test.want) {
				t.Errorf("judged %v, want %v", err, test.want)
			}
		})
	}
}

func TestContextCarriesGrants(t *testing.T) {
	a, b := fence.Grant{Cluster: "c", Lock: "a", Token: 7}, fence.Grant{Cluster: "c", Lock: "b", Token: 7}
	set := fence.NewContext(context.Background(), a, b)
	for name, test := range map[string]struct {
		ctx      context.Context
		resource string
		want     fence.Grant
		err      error
	}{
		"none":                  {context.Background(), "a", fence.Grant{}, fence.ErrNoGrant},
		"one, of another name":  {with(a), "r", a, nil},
		"of a set, by its name": {set, "b", b, nil},
		"of a set, none fits":   {set, "r", fence.Grant{}, fence.ErrInvalid},
		"of a set, picked":      {fence.For(set, "b"), "r", b, nil},
		"picked, but not held":  {fence.For(set, "c"), "a", fence.Grant{}, fence.ErrNoGrant},
		"nested":                {fence.NewContext(set, a), "b", a, nil},
		"hidden":                {fence.NewContext(set), "b", fence.Grant{}, fence.ErrNoGrant},
	} {
		t.Run(name, func(t *testing.T) {
			g, err := fence.FromContext(test.ctx, test.resource)
			if g != test.want || (test.err == nil) != (err == nil) || !errors.Is(err, test.err) {
				t.Errorf("got %v, %v, want %v, %v", g, err, test.want, test.err)
			}
		})
	}
}

// What a context carries is not the caller's to change any more: a stale holder's context cannot become its successor's.
func TestContextKeepsItsGrants(t *testing.T) {
	given := []fence.Grant{{Cluster: "c", Lock: "l", Token: 41}}
	ctx := fence.NewContext(context.Background(), given...)
	given[0].Token = 42
	fence.Grants(ctx)[0].Token = 43
	if g, err := fence.FromContext(ctx, "r"); err != nil || g.Token != 41 {
		t.Errorf("%v, %v", g, err)
	}
}

func TestEnviron(t *testing.T) {
	want := fence.Grant{Cluster: "c1", Lock: "jobs/nightly = 1", Token: 1<<53 - 1}
	env := map[string]string{}
	for _, kv := range want.Environ(time.Date(2026, 1, 2, 3, 4, 5, 6000, time.FixedZone("", 3600))) {
		k, v, _ := strings.Cut(kv, "=")
		env[k] = v
	}
	if env[fence.EnvDeadline] != "2026-01-02T02:04:05.000006Z" {
		t.Errorf("deadline %q", env[fence.EnvDeadline])
	}
	lookup := func(k string) (string, bool) { v, ok := env[k]; return v, ok }
	if g, err := fence.FromEnviron(lookup); g != want || err != nil {
		t.Errorf("read back %v, %v", g, err)
	}
	for _, key := range []string{fence.EnvCluster, fence.EnvLock, fence.EnvToken} {
		v := env[key]
		delete(env, key)
		if g, err := fence.FromEnviron(lookup); !errors.Is(err, fence.ErrInvalid) {
			t.Errorf("without %s: %v, %v", key, g, err)
		}
		env[key] = v
	}
	clear(env)
	if _, err := fence.FromEnviron(lookup); !errors.Is(err, fence.ErrNoGrant) {
		t.Errorf("outside: %v", err)
	}
}

// A write that fails has claimed the resource all the same: what it did before it failed is not known here.
func TestGuardCountsFailedWrites(t *testing.T) {
	var g fence.Guard
	failed := errors.New("disk full")
	if err := g.Do(with(grant(9)), "r", func(context.Context) error { return failed }); err != failed {
		t.Fatal(err)
	}
	if err := fence.Claim(with(grant(8)), &g, "r"); !errors.Is(err, fence.ErrStaleToken) {
		t.Errorf("after a failed write of 9, 8 got %v", err)
	}
	func() {
		defer func() { _ = recover() }()
		_ = g.Do(with(grant(10)), "r", func(context.Context) error { panic("boo") })
	}()
	if err := fence.Claim(with(grant(10)), &g, "r"); err != nil {
		t.Errorf("after a write that panicked: %v", err)
	}
	if g.Last("r") != grant(10) || g.Last("other") != (fence.Grant{}) {
		t.Errorf("last %v, %v", g.Last("r"), g.Last("other"))
	}
}

// The wait for another write of the resource ends with the context, and the error tells why that ended.
func TestGuardWaitIsBounded(t *testing.T) {
	var g fence.Guard
	inside, goOn := make(chan struct{}), make(chan struct{})
	go func() {
		_ = g.Do(with(grant(1)), "r", func(context.Context) error { close(inside); <-goOn; return nil })
	}()
	<-inside
	lost := errors.New("hold lost")
	ctx, cancel := context.WithCancelCause(with(grant(2)))
	result := make(chan error)
	go func() { result <- fence.Claim(ctx, &g, "r") }()
	cancel(lost)
	if err := <-result; !errors.Is(err, context.Canceled) || !errors.Is(err, lost) {
		t.Errorf("the wait ended in %v", err)
	}
	close(goOn)
	if last := g.Last("r"); last != grant(1) {
		t.Errorf("accepted %v", last)
	}
	if err := fence.Claim(ctx, &g, "r"); !errors.Is(err, lost) {
		t.Errorf("a context that had ended: %v", err)
	}
}

// A guard that is full refuses new resources and goes on to judge those that it knows; a bad name takes no place.
func TestGuardIsBounded(t *testing.T) {
	var g fence.Guard
	for i := range fence.MaxGuarded {
		if err := fence.Claim(with(grant(5)), &g, fmt.Sprint(i)); err != nil {
			t.Fatal(i, err)
		}
	}
	if err := fence.Claim(with(grant(5)), &g, "one more"); !errors.Is(err, fence.ErrFull) {
		t.Errorf("one more: %v", err)
	}
	if err := fence.Claim(with(grant(4)), &g, "7"); !errors.Is(err, fence.ErrStaleToken) {
		t.Errorf("a stale one: %v", err)
	}
}

func ExampleGuard() {
	var ledger fence.Guard
	write := func(token fence.Token) error {
		// The contexts of Mutex.Do, Hold.Context and Election.Run carry this.
		ctx := fence.NewContext(context.Background(), fence.Grant{Cluster: "5f0c", Lock: "job-x", Token: token})
		return ledger.Do(ctx, "ledger", func(context.Context) error { return nil })
	}
	fmt.Println(write(41))
	fmt.Println(write(42))
	fmt.Println(write(41))
	// Output:
	// <nil>
	// <nil>
	// ledger: token 41 is stale: 42 has been accepted
}
