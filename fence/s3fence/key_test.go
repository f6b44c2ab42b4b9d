package s3fence

import (
	"errors"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/fence"
)

func TestKey(t *testing.T) {
	b, err := New(&scripted{}, Config{Prefix: "p/"})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"totals.json", "a/b/c", "a..b/(1)!-_*'", strings.Repeat("x", fence.MaxName)} {
		if key := b.Key(name); key != "p/"+name {
			t.Errorf("%q: %q", name, key)
		}
	}
	keys := map[string]string{}
	for _, name := range []string{"a//b", "/a", "a/", "a/../b", "./a", "..", "ü",
		"a b", "a%2Fb", "~a", "a#b", "a+b", strings.Repeat("ü", fence.MaxName/2)} {
		key := b.Key(name)
		if !strings.HasPrefix(key, "p/~") || len(key) != len("p/~")+64 {
			t.Errorf("%q: %q", name, key)
		}
		if other, twice := keys[key]; twice {
			t.Errorf("%q and %q are one key", name, other)
		}
		keys[key] = name
	}
}

func TestBadConfig(t *testing.T) {
	for name, cfg := range map[string]Config{
		"absolute prefix":      {Prefix: "/p"},
		"empty segment":        {Prefix: "p//q"},
		"relative prefix":      {Prefix: "p/../q/"},
		"unsafe prefix":        {Prefix: "ü/"},
		"long prefix":          {Prefix: strings.Repeat("p", 513)},
		"negative payload":     {MaxPayload: -1},
		"payload out of range": {MaxPayload: maxMaxPayload + 1},
	} {
		if _, err := New(&scripted{}, cfg); !errors.Is(err, fence.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := New(nil, Config{}); !errors.Is(err, fence.ErrInvalid) {
		t.Errorf("no store: %v", err)
	}
	if _, err := New((*scripted)(nil), Config{}); !errors.Is(err, fence.ErrInvalid) {
		t.Errorf("a nil pointer as the store: %v", err)
	}
	var zero Bucket
	ctx := fence.NewContext(t.Context(), fence.Grant{Cluster: "c", Lock: "l", Token: 1})
	for name, err := range map[string]error{"put": zero.Put(ctx, "r", nil), "probe": zero.Probe(ctx)} {
		if !errors.Is(err, fence.ErrInvalid) {
			t.Errorf("%s of the zero Bucket: %v", name, err)
		}
	}
}
