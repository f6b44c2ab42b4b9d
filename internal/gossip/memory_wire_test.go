package gossip

import (
	"bytes"
	"fmt"
	"reflect"
	"testing"
)

func TestTablesAreSplit(t *testing.T) {
	var rows []row
	for i := range 50 {
		rows = append(rows, row{id: fmt.Sprintf("server-%d", i), beat: uint64(i), left: i%7 == 0, rec: bytes.Repeat([]byte{byte(i)}, 10*i)})
	}
	var got []row
	for _, b := range encodeTables(kindAsking, 42, rows) {
		if len(b) > maxDatagram {
			t.Errorf("a datagram of %d bytes", len(b))
		}
		m, err := decodeMessage(b)
		if err != nil || m.kind != kindAsking || m.cluster != 42 {
			t.Fatalf("%+v, %v", m, err)
		}
		got = append(got, m.rows...)
	}
	if !reflect.DeepEqual(got, rows) {
		t.Error("rows changed on the way")
	}
}

func TestSealer(t *testing.T) {
	k1, k2, k3 := bytes.Repeat([]byte{1}, 16), bytes.Repeat([]byte{2}, 24), bytes.Repeat([]byte{3}, 32)
	seal := func(keys ...[]byte) sealer {
		s, err := newSealer(keys)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	b := seal(k1).seal([]byte("hello"))
	if plain, err := seal(k2, k1).open(b); err != nil || string(plain) != "hello" {
		t.Errorf("second key: %q, %v", plain, err)
	}
	if _, err := seal(k3).open(b); err == nil {
		t.Error("a foreign key opened it")
	}
	for i := range b {
		bad := bytes.Clone(b)
		bad[i] ^= 1
		if _, err := seal(k1).open(bad); err == nil {
			t.Errorf("byte %d changed and it still opens", i)
		}
	}
	if _, err := seal(k1).open(nil); err == nil {
		t.Error("nothing opens")
	}
	if _, err := newSealer([][]byte{{1}}); err == nil {
		t.Error("short key accepted")
	}
}

func FuzzDatagram(f *testing.F) {
	for _, b := range encodeTables(kindTable, 1, []row{{id: "a", beat: 3, rec: []byte("x")}, {id: "b", left: true}}) {
		f.Add(b)
	}
	f.Add([]byte{memoryFormat, kindDuel, 1, 2, 3, 4})
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeMessage(b)
		if err != nil || m.kind == kindDuel {
			return
		}
		var again []row
		for _, d := range encodeTables(m.kind, m.cluster, m.rows) {
			m2, err := decodeMessage(d)
			if err != nil || m2.kind != m.kind || m2.cluster != m.cluster {
				t.Fatalf("%+v becomes %+v, %v", m, m2, err)
			}
			again = append(again, m2.rows...)
		}
		if len(again) != len(m.rows) {
			t.Fatalf("%d rows become %d", len(m.rows), len(again))
		}
	})
}
