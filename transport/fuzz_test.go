package transport

import (
	"bufio"
	"bytes"
	"testing"
)

func FuzzPreamble(f *testing.F) {
	f.Add(hello{version: preambleVersion, kind: KindRaft, cluster: "c", from: "a", to: "b", clusterID: "i", advertise: "h:1"}.encode())
	f.Add(answer{version: preambleVersion, status: byte(RefusedTarget), serverID: "b", clusterID: "i"}.encode())
	f.Add([]byte(preambleMagic + "\x09C\x00\x02xy"))
	f.Add([]byte(preambleMagic + "\x01C\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		if h, err := readHello(r); err == nil {
			wantConsumed(t, b, r, h.version, h.encode())
		}
		r = bytes.NewReader(b)
		if a, err := readAnswer(r); err == nil {
			wantConsumed(t, b, r, a.version, a.encode())
		}
	})
}

// wantConsumed: one value has one encoding, and not a byte behind it is read.
func wantConsumed(t *testing.T, in []byte, r *bytes.Reader, version byte, encoded []byte) {
	t.Helper()
	read := in[:len(in)-r.Len()]
	if len(read) > preambleHeader+maxPreambleBody {
		t.Fatalf("read %d bytes", len(read))
	}
	if version == preambleVersion && !bytes.Equal(read, encoded) {
		t.Fatalf("read %q, encodes as %q", read, encoded)
	}
}

func FuzzFrame(f *testing.F) {
	f.Add(appendFrame(nil, &frame{kind: frameRequest, method: 3, id: 1, arg: 1000, payload: []byte("hi")}))
	f.Add(appendFrame(appendFrame(nil, &frame{kind: framePing}), &frame{kind: frameError, id: 2, arg: 42, payload: []byte("no")}))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Add([]byte{0, 0x3f, 0xff, 0xff, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3})
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bufio.NewReader(bytes.NewReader(b))
		var again []byte
		for {
			fr, err := readFrame(r)
			if err != nil {
				break
			}
			if decodeTimeLeft(fr.arg) < 0 {
				t.Fatalf("arg %d is a negative time", fr.arg)
			}
			again = appendFrame(again, &fr)
		}
		if !bytes.HasPrefix(b, again) {
			t.Fatalf("%q was read as %q", b, again)
		}
	})
}
