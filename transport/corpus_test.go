package transport

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write the fuzz seeds of TestCorpus anew")

// corpus are conversations as they stand on the wire, from which the fuzzers start: a preamble with whatever follows it, calls in flight
// side by side.
func corpus() map[string][][]byte {
	return map[string][][]byte{"FuzzPreamble": preambleSeeds(), "FuzzFrame": frameSeeds()}
}

func preambleSeeds() (seeds [][]byte) {
	const dialer, target, cluster = "9c2f00a1d3e4b5f6", "1b7790c2aa01fe37", "f81d4fae-7dec-11d0"
	call := appendFrame(nil, &frame{kind: frameRequest, method: 1, id: 1, arg: 1_000_000, payload: []byte("\x01\x01\x0c")})
	for _, h := range []hello{
		{kind: KindCall, cluster: "orders", from: dialer},
		{kind: KindCall, cluster: "orders", from: dialer, to: target, advertise: "10.20.30.40:7946"},
		{kind: KindCall, cluster: "größe", from: dialer, clusterID: cluster, advertise: "[fd00::17]:7946"},
		{kind: KindGossip, cluster: "orders", from: dialer, clusterID: cluster, advertise: "web-3.svc:7946"},
		{kind: KindRaft, cluster: "orders", from: dialer, to: target, clusterID: cluster, advertise: "10.20.30.40:7946"},
		{kind: 'X', cluster: "orders", from: dialer},
	} {
		h.version = preambleVersion
		seeds = append(seeds, append(h.encode(), call...))
	}
	for status := statusAccepted; status <= int(RefusedBusy); status++ {
		a := answer{version: preambleVersion, status: byte(status), serverID: target, clusterID: cluster, advertise: "10.20.30.41:7946"}
		seeds = append(seeds, append(a.encode(), call...))
	}
	newer := hello{version: preambleVersion + 1, kind: KindRaft, cluster: "orders", from: dialer, to: target}
	return append(seeds, newer.encode(), newer.encode()[:preambleHeader+5])
}

func frameSeeds() (seeds [][]byte) {
	conversation := func(frames ...frame) {
		var b []byte
		for i := range frames {
			b = appendFrame(b, &frames[i])
		}
		seeds = append(seeds, b, b[:len(b)-1])
	}
	batch := bytes.Repeat([]byte("\x09\x06\x81\x80\x80\xd8\xb4\xa2\xca\x06\x07\x05\x01\x05job-x"), 40)
	conversation(
		frame{kind: frameRequest, method: 1, id: 1, arg: 1_500_000, payload: batch},
		frame{kind: frameRequest, method: 2, id: 2},
		frame{kind: framePing},
	)
	conversation(
		frame{kind: framePong},
		frame{kind: frameReply, id: 2, payload: []byte("second first")},
		frame{kind: frameError, id: 1, arg: 7, payload: []byte("not the leader")},
	)
	conversation(
		frame{kind: framePush, method: 9, payload: batch[:64]},
		frame{kind: frameReply, id: 3},
		frame{kind: framePush, method: 9, payload: batch[:30]},
	)
	conversation(frame{kind: frameRequest, method: 200, id: 1 << 63, arg: 1<<64 - 1}, frame{kind: 0}, frame{kind: 77, payload: batch})
	return seeds
}

// TestCorpus holds the committed seeds against what is written today; -update writes them anew.
func TestCorpus(t *testing.T) {
	for target, seeds := range corpus() {
		for i, seed := range seeds {
			path := filepath.Join("testdata", "fuzz", target, fmt.Sprintf("story-%02d", i))
			want := fmt.Appendf(nil, "go test fuzz v1\n[]byte(%q)\n", seed)
			if *update {
				if err := os.WriteFile(path, want, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s is not what is written today (run with -update): %v", path, err)
			}
		}
	}
}
