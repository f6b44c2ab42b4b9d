package snapshots

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	id := strings.Repeat("0a", 16)
	for _, cluster := range []string{"orders", "orders.eu-1", "a b", "ä", "~x", ".x", strings.Repeat("x", 128), strings.Repeat("/", 128), "../.."} {
		n := Name{Label: Label(cluster), ClusterID: id, Counter: 1<<53 - 1, Index: 1<<64 - 1}
		if err := CheckName(n.String()); err != nil {
			t.Errorf("%q: %v", cluster, err)
		}
		if got, ok := ParseName(n.String()); !ok || got != n {
			t.Errorf("%q: %+v, %v", n, got, ok)
		}
	}
	if Label("a b") == Label("a  b") || Label("~x") == "~x" {
		t.Error("two clusters have one label")
	}
	good := Name{Label: "a", ClusterID: id, Counter: 5, Index: 7}.String()
	for _, bad := range []string{
		"", "x", strings.TrimSuffix(good, suffix), strings.Replace(good, "a.", ".", 1), strings.Replace(good, "a.0", "a.", 1), strings.Replace(good, ".0", ".-", 1), good + "x",
		"a.1.2." + id + suffix,
	} {
		if n, ok := ParseName(bad); ok {
			t.Errorf("%q: %+v", bad, n)
		}
	}
}

// The names of one cluster sort as its states follow each other.
func TestOrderOfNames(t *testing.T) {
	var names []Name
	for _, counter := range []int64{0, 9, 10, 1_780_000_000_000_000, 1<<53 - 1} {
		for _, index := range []uint64{1, 9, 10, 1 << 40, 1<<64 - 1} {
			names = append(names, Name{Label: "a", ClusterID: "b", Counter: counter, Index: index})
		}
	}
	if !slices.IsSortedFunc(names, Name.Compare) || !slices.IsSortedFunc(names, func(a, b Name) int { return strings.Compare(a.String(), b.String()) }) {
		t.Errorf("%v", names)
	}
}

type listed []string

func (listed) Create(context.Context, string, func(io.Writer) error) error { return nil }
func (listed) Open(context.Context, string) (io.ReadCloser, error)         { return nil, ErrNotFound }
func (listed) Remove(context.Context, string) error                        { return nil }
func (l listed) List(_ context.Context, prefix string) (all []Object, _ error) {
	for _, name := range l {
		if strings.HasPrefix(name, prefix) {
			all = append(all, Object{Name: name})
		}
	}
	return all, nil
}

// A cluster sees its own, not those of one whose name goes on after a dot, and nothing else.
func TestOf(t *testing.T) {
	name := func(cluster, id string, counter int64) string {
		return Name{Label: Label(cluster), ClusterID: id, Counter: counter}.String()
	}
	all := listed{name("a", "x", 3), name("a", "y", 2), name("a.b", "z", 1), name("a b", "z", 1), "a.other", "a." + suffix}
	found, err := Of(context.Background(), all, "a")
	if err != nil || len(found) != 2 || found[0].Name.ClusterID != "y" || found[1].Name.ClusterID != "x" {
		t.Errorf("%+v, %v", found, err)
	}
}
