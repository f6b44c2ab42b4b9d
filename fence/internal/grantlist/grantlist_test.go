package grantlist

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/fence"
)

func TestRoundTrip(t *testing.T) {
	for name, grants := range map[string][]fence.Grant{
		"plain":         {{Cluster: "5f0c", Lock: "job-x", Token: 42}},
		"highest token": {{Cluster: "c", Lock: "l", Token: 1<<53 - 1}},
		"any UTF-8":     {{Cluster: "ü=;,", Lock: "job ü/{}'\"%;, =+&?#\u2028", Token: 1}},
		"longest":       {{Cluster: strings.Repeat("c", fence.MaxCluster), Lock: strings.Repeat("ü", fence.MaxName/2), Token: 1}},
		"several":       {{Cluster: "c", Lock: "a,b", Token: 7}, {Cluster: "c", Lock: "b;a", Token: 7}},
		"most":          many(MaxGrants, 150),
	} {
		text, err := Encode(grants)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Errorf("%s: %q is not printable", name, text)
		}
		if got, err := Decode("f", []string{text}); err != nil || !slices.Equal(got, grants) {
			t.Errorf("%s: %q became %v, %v", name, text, got, err)
		}
		if got, err := Decode("f", strings.Split(text, ", ")); err != nil || !slices.Equal(got, grants) {
			t.Errorf("%s: on lines of their own: %v, %v", name, got, err)
		}
	}
}

// many are n grants whose names have length bytes.
func many(n, length int) []fence.Grant {
	list := make([]fence.Grant, n)
	for i := range list {
		list[i] = fence.Grant{Cluster: "5f0c9d2ab1e7", Lock: fmt.Sprintf("%0*d", length, i), Token: 1796157310875344}
	}
	return list
}

func TestEncodeRefuses(t *testing.T) {
	good := fence.Grant{Cluster: "c", Lock: "l", Token: 1}
	for name, c := range map[string]struct {
		grants []fence.Grant
		want   error
	}{
		"none":              {nil, fence.ErrNoGrant},
		"no token":          {[]fence.Grant{{Cluster: "c", Lock: "l"}}, fence.ErrInvalid}, // a semaphore's permit
		"control character": {[]fence.Grant{{Cluster: "c", Lock: "l\r\nHost: x", Token: 1}}, fence.ErrInvalid},
		"not UTF-8":         {[]fence.Grant{{Cluster: "c", Lock: "l\xff", Token: 1}}, fence.ErrInvalid},
		"second is bad":     {[]fence.Grant{good, {Cluster: "", Lock: "m", Token: 1}}, fence.ErrInvalid},
		"one lock twice":    {[]fence.Grant{good, {Cluster: "d", Lock: "l", Token: 2}}, fence.ErrInvalid},
		"too many":          {many(MaxGrants+1, 3), fence.ErrInvalid},
		"too long":          {many(MaxGrants, 300), fence.ErrInvalid},
	} {
		if text, err := Encode(c.grants); !errors.Is(err, c.want) || text != "" {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
}

// What people and other programs write by hand.
func TestDecodeAccepts(t *testing.T) {
	want := []fence.Grant{{Cluster: "c", Lock: "jöb/x", Token: 42}}
	for _, text := range []string{
		"token=42;cluster=c;lock=j%C3%B6b/x",
		"lock=j%c3%b6b%2Fx; cluster=c; token=42",
		" \ttoken=42 ;\tcluster=%63 ; lock=j%C3%B6b/x ",
	} {
		if got, err := Decode("f", []string{text}); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

// badLists are refused whatever carries them.
var badLists = map[string][]string{
	"empty":                 {""},
	"blank":                 {" "},
	"only a token":          {"42"},
	"no token":              {"cluster=c;lock=l"},
	"no cluster":            {"token=1;lock=l"},
	"no lock":               {"token=1;cluster=c"},
	"empty token":           {"token=;cluster=c;lock=l"},
	"empty cluster":         {"token=1;cluster=;lock=l"},
	"empty lock":            {"token=1;cluster=c;lock="},
	"zero token":            {"token=0;cluster=c;lock=l"},
	"negative token":        {"token=-1;cluster=c;lock=l"},
	"signed token":          {"token=+1;cluster=c;lock=l"},
	"leading zero":          {"token=01;cluster=c;lock=l"},
	"hexadecimal token":     {"token=0x1;cluster=c;lock=l"},
	"float token":           {"token=1e3;cluster=c;lock=l"},
	"token over 64 bits":    {"token=9223372036854775808;cluster=c;lock=l"},
	"token with words":      {"token=1 OR 1;cluster=c;lock=l"},
	"quoted":                {`token="1";cluster="c";lock="l"`},
	"space in a name":       {"token=1;cluster=c;lock=job x"},
	"raw UTF-8":             {"token=1;cluster=c;lock=jöb"},
	"control character":     {"token=1;cluster=c;lock=a\x01b"},
	"escaped control":       {"token=1;cluster=c;lock=a%0d%0ab"},
	"escaped zero byte":     {"token=1;cluster=c;lock=%00"},
	"escaped C1 control":    {"token=1;cluster=c;lock=%C2%85"},
	"escape broken off":     {"token=1;cluster=c;lock=a%2"},
	"escape not hex":        {"token=1;cluster=c;lock=a%zz"},
	"escaped non-UTF-8":     {"token=1;cluster=c;lock=%ff"},
	"overlong UTF-8":        {"token=1;cluster=c;lock=%c0%af"},
	"token twice":           {"token=1;token=2;cluster=c;lock=l"},
	"lock twice":            {"token=1;cluster=c;lock=l;lock=l"},
	"unknown part":          {"token=1;cluster=c;lock=l;shard=2"},
	"other case":            {"Token=1;cluster=c;lock=l"},
	"trailing semicolon":    {"token=1;cluster=c;lock=l;"},
	"trailing comma":        {"token=1;cluster=c;lock=l,"},
	"leading comma":         {",token=1;cluster=c;lock=l"},
	"second is bad":         {"token=1;cluster=c;lock=l, token=0;cluster=c;lock=m"},
	"second line is bad":    {"token=1;cluster=c;lock=l", "x"},
	"second line is empty":  {"token=1;cluster=c;lock=l", ""},
	"same grant twice":      {"token=1;cluster=c;lock=l", "token=1;cluster=c;lock=l"},
	"same lock twice":       {"token=1;cluster=c;lock=l, token=2;cluster=c;lock=l"},
	"same lock in disguise": {"token=1;cluster=c;lock=l, token=2;cluster=c;lock=%6C"},
	"lock too long":         {"token=1;cluster=c;lock=" + strings.Repeat("x", fence.MaxName+1)},
	"cluster too long":      {"token=1;lock=l;cluster=" + strings.Repeat("x", fence.MaxCluster+1)},
	"too long":              {"token=1;cluster=c;lock=" + strings.Repeat("x", MaxLength)},
	"too long together":     {strings.Repeat("x", MaxLength-1), "xx"},
	"too many":              {strings.Repeat("token=1;cluster=c;lock=l,", MaxGrants) + "token=1;cluster=c;lock=l"},
	"very many commas":      {strings.Repeat(",", MaxLength)},
	"very many lines":       make([]string, 1<<16),
}

func TestDecodeRefuses(t *testing.T) {
	for name, lines := range badLists {
		var field *fence.FieldError
		grants, err := Decode("f", lines)
		if !errors.As(err, &field) || !errors.Is(err, fence.ErrInvalid) {
			t.Errorf("%s: %v, %v", name, grants, err)
			continue
		}
		if len(err.Error()) > 300 {
			t.Errorf("%s: an error of %d bytes", name, len(err.Error()))
		}
	}
}

// Whatever is accepted is valid and comes back the same through Encode, unless escaping it anew makes it too long.
func FuzzDecode(f *testing.F) {
	f.Add("token=42;cluster=c;lock=job-x", "")
	f.Add("lock=j%C3%B6b%2Fx; cluster=c; token=42", "token=1;cluster=c;lock=l")
	f.Add("token=1;cluster=c;lock=l, token=2;cluster=c;lock=%6C", ",")
	f.Add("token=1;token=2;cluster=c;lock=%zz", "\x00")
	f.Fuzz(func(t *testing.T, one, two string) {
		lines := []string{one}
		if two != "" {
			lines = append(lines, two)
		}
		grants, err := Decode("f", lines)
		if err != nil {
			if !errors.Is(err, fence.ErrInvalid) {
				t.Fatalf("%q: %v", lines, err)
			}
			return
		}
		if len(grants) == 0 || len(grants) > MaxGrants {
			t.Fatalf("%q: %d grants", lines, len(grants))
		}
		for _, g := range grants {
			if err := g.Check(); err != nil {
				t.Fatalf("%q: %v", lines, err)
			}
		}
		text, err := Encode(grants)
		if err != nil && len(one)+len(two) < MaxLength/4 {
			t.Fatalf("%v: %v", grants, err)
		}
		if again, err := Decode("f", []string{text}); text != "" && (err != nil || !slices.Equal(again, grants)) {
			t.Fatalf("%v became %v, %v", grants, again, err)
		}
	})
}
