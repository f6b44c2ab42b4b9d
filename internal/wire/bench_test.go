package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/locktable"
)

// fullBatch is an entry as a busy leader writes it: claims, unlocks and renewals by turns.
func fullBatch() []*locktable.Command {
	var cmds []*locktable.Command
	for i := range 256 {
		session, seq := goldenSession+locktable.SessionID(i), uint64(1000+i)
		switch i % 3 {
		case 0:
			cmds = append(cmds, &locktable.Command{
				Op: locktable.OpClaim, Session: session, Seq: seq, Floor: seq, Names: []string{fmt.Sprintf("tenant-%d/job", i)},
			})
		case 1:
			cmds = append(cmds, &locktable.Command{
				Op: locktable.OpUnlock, Session: session, Seq: seq, Floor: seq, Of: seq - 1, Token: 1_780_000_000_000_500,
			})
		case 2:
			cmds = append(cmds, &locktable.Command{Op: locktable.OpRenew, Session: session, Since: 1_780_000_000_000_500})
		}
	}
	return cmds
}

func BenchmarkAppendBatch(b *testing.B) {
	cmds := fullBatch()
	buf := AppendBatch(nil, 1_780_000_000_000, cmds)
	b.SetBytes(int64(len(buf)))
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendBatch(buf[:0], 1_780_000_000_000, cmds)
	}
}

func BenchmarkDecodeBatch(b *testing.B) {
	buf := AppendBatch(nil, 1_780_000_000_000, fullBatch())
	b.SetBytes(int64(len(buf)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeBatch(buf); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkProposeRequest is a claim on its way to the leader.
func BenchmarkProposeRequest(b *testing.B) {
	request := ProposeRequest{Timeout: 10 * time.Second, Command: locktable.Command{
		Op: locktable.OpClaim, Session: goldenSession, Seq: 1000, Floor: 1000, Names: []string{"tenant-7/job"},
	}}
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendProposeRequest(buf[:0], &request)
		if _, err := DecodeProposeRequest(buf); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkGrantPush is the news of one grant.
func BenchmarkGrantPush(b *testing.B) {
	push := GrantPush{Events: []GrantEvent{{
		Session: goldenSession, Seq: 1000, Token: 1_780_000_000_000_500, Kind: PushGranted, Index: 1_000_000, Rev: 1_780_000_000_000_500,
	}}}
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendGrantPush(buf[:0], &push)
		if _, err := DecodeGrantPush(buf); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkProposeReply(b *testing.B) {
	reply := ProposeReply{Status: StatusDone, Result: locktable.Result{
		Code: locktable.CodeGranted, Index: 1_000_000, Rev: 1_780_000_000_000_500, Token: 1_780_000_000_000_500, Renewed: true,
	}}
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendProposeReply(buf[:0], &reply)
		if _, err := DecodeProposeReply(buf); err != nil {
			b.Fatal(err)
		}
	}
}

// heldLocks is a table of n held locks of n/10 sessions.
func heldLocks(tb testing.TB, n int) *locktable.Table {
	table := foundedTable(tb)
	var session locktable.SessionID
	for i := range n {
		if i%10 == 0 {
			open := locktable.Command{Op: locktable.OpOpen, Node: "server-1", NodeName: "web-1", TTL: testTTL}
			session = apply(tb, table, &open, locktable.CodeOK).Session
		}
		name := fmt.Sprintf("tenant-%07d/job", i)
		claim := locktable.Command{Op: locktable.OpClaim, Session: session, Seq: uint64(1 + i%10), Floor: 1, Names: []string{name}}
		apply(tb, table, &claim, locktable.CodeGranted)
	}
	return table
}

func BenchmarkWriteSnapshot100k(b *testing.B) {
	s := heldLocks(b, 100_000).Snapshot()
	b.ReportAllocs()
	for b.Loop() {
		if err := WriteSnapshot(io.Discard, s); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkVerifiedSnapshot100k is a snapshot that is read back while it is written.
func BenchmarkVerifiedSnapshot100k(b *testing.B) {
	s := heldLocks(b, 100_000).Snapshot()
	b.ReportAllocs()
	for b.Loop() {
		out, in := io.Pipe()
		verdict := make(chan error, 1)
		go func() { verdict <- VerifySnapshot(out, always) }()
		err := WriteSnapshot(in, s)
		_ = in.Close()
		if err := errors.Join(err, <-verdict); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReadSnapshot100k(b *testing.B) {
	var buf bytes.Buffer
	if err := WriteSnapshot(&buf, heldLocks(b, 100_000).Snapshot()); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(buf.Len()))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ReadSnapshot(bytes.NewReader(buf.Bytes())); err != nil {
			b.Fatal(err)
		}
	}
}
