package gossip

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/wire"
)

func sample() record {
	return record{cluster: fingerprint("test"), started: 1234567890123456789, addr: "10.0.0.1:7000",
		meta: Meta{Name: "web-1", Zone: "eu-1", ClusterID: "0123456789abcdef", Version: 3, Expect: 3, HasState: true, Boot: "b00t"}}
}

func mustEncode(t testing.TB, r record) []byte {
	b, err := r.encode()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestRecordRoundTrip(t *testing.T) {
	for _, r := range []record{sample(), {addr: "[::1]:1"}, {addr: "pod-0.locks.svc:7000", started: -1}} {
		got, err := decodeRecord(mustEncode(t, r))
		if err != nil || got != r {
			t.Errorf("round trip of %+v gives %+v, %v", r, got, err)
		}
	}
}

func TestRecordRefusals(t *testing.T) {
	good := mustEncode(t, sample())
	for n := range good {
		if r, err := decodeRecord(good[:n]); err == nil {
			t.Errorf("the first %d of %d bytes decode to %+v", n, len(good), r)
		}
	}
	otherVersion := bytes.Clone(good)
	otherVersion[0] = recordVersion + 1
	unspecified := sample()
	unspecified.addr = "0.0.0.0:7000"
	noPort := sample()
	noPort.addr = "host"
	for name, b := range map[string][]byte{
		"unknown version":     otherVersion,
		"too long":            append(bytes.Clone(good), make([]byte, maxRecord)...),
		"unspecified address": mustEncode(t, unspecified),
		"no port":             mustEncode(t, noPort),
	} {
		if r, err := decodeRecord(b); err == nil {
			t.Errorf("%s: decodes to %+v", name, r)
		}
	}
	if _, err := decodeRecord(good[:5]); !errors.Is(err, wire.ErrMalformed) {
		t.Errorf("cut short: %v is not ErrMalformed", err)
	}
}

// A later binary may append fields; this one must still see the member.
func TestRecordWithAppendedFields(t *testing.T) {
	got, err := decodeRecord(append(mustEncode(t, sample()), 1, 2, 3))
	if err != nil || got != sample() {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestRecordLimits(t *testing.T) {
	r := sample()
	r.meta.Name = strings.Repeat("x", maxRecord)
	var tooLarge *MetaTooLargeError
	if _, err := r.encode(); !errors.As(err, &tooLarge) {
		t.Errorf("large: %v", err)
	}
	for _, expect := range []int{-1, MaxExpect + 1} {
		r = sample()
		r.meta.Expect = expect
		if _, err := r.encode(); err == nil {
			t.Errorf("Expect %d was accepted", expect)
		}
	}
}

func TestAdmits(t *testing.T) {
	with := func(cluster, id string) record {
		return record{cluster: fingerprint(cluster), meta: Meta{ClusterID: id}}
	}
	for _, c := range []struct {
		a, b record
		want error
	}{
		{with("x", ""), with("x", ""), nil},
		{with("x", "1"), with("x", ""), nil},
		{with("x", ""), with("x", "1"), nil},
		{with("x", "1"), with("x", "1"), nil},
		{with("x", "1"), with("x", "2"), errOtherID},
		{with("x", ""), with("y", ""), errOtherName},
		{with("x", "1"), with("y", "1"), errOtherName},
	} {
		if err := c.a.admits(c.b); !errors.Is(err, c.want) {
			t.Errorf("%+v and %+v: %v, want %v", c.a, c.b, err, c.want)
		}
	}
}

func FuzzMeta(f *testing.F) {
	f.Add(mustEncode(f, sample()))
	f.Add([]byte{})
	f.Add([]byte{recordVersion, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := decodeRecord(b)
		if err != nil {
			return
		}
		if checkAdvertise(r.addr) != nil {
			t.Fatalf("undialable address %q came through", r.addr)
		}
		again, err := decodeRecord(mustEncode(t, r))
		if err != nil || again != r {
			t.Fatalf("%+v becomes %+v, %v", r, again, err)
		}
	})
}

// S98: CheckSize tells before the start whether the metadata fits, whatever the instance becomes later.
func TestS98CheckSize(t *testing.T) {
	longest := Meta{Name: strings.Repeat("n", 128)}
	addr := strings.Repeat("d", 253) + ":65535"
	if err := CheckSize(addr, longest); err != nil {
		t.Errorf("the longest name and address: %v", err)
	}
	zone := longest
	zone.Zone = strings.Repeat("z", 64)
	var large *MetaTooLargeError
	if err := CheckSize(addr, zone); !errors.As(err, &large) || large.Size <= large.Limit {
		t.Errorf("with a zone that is too long beside them: %v", err)
	}
	for n := range 512 { // what passes can be published by every later state
		m := Meta{Name: "n", Zone: strings.Repeat("z", n)}
		if CheckSize("10.0.0.1:7000", m) != nil {
			continue
		}
		m.ClusterID, m.Boot, m.Expect, m.HasState, m.Version = strings.Repeat("c", 32), strings.Repeat("b", 32), MaxExpect, true, 1<<32-1
		if _, err := (record{cluster: fingerprint("c"), started: time.Now().UnixNano(), addr: "10.0.0.1:7000", meta: m}).encode(); err != nil {
			t.Fatalf("%d bytes passed: %v", n, err)
		}
	}
}
