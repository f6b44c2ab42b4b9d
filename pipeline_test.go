package quorumlock

import (
	"io"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// A sender is never held up for good by answers that nobody takes: it comes to see that its decoder has stopped. Here the peer takes
// requests and never answers.
func TestPipelineWithoutADecoderTakesRequests(t *testing.T) {
	trans, err := raft.NewTCPTransport("127.0.0.1:0", nil, 1, 500*time.Millisecond, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	defer trans.Close()
	peer, err := raft.NewTCPTransport("127.0.0.1:0", nil, 1, time.Second, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	p, err := (&raftTransport{NetworkTransport: trans, life: t.Context()}).AppendEntriesPipeline("peer", peer.LocalAddr())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for range 5 {
			if _, err := p.AppendEntries(new(raft.AppendEntriesRequest), new(raft.AppendEntriesResponse)); err != nil {
				return // the sender may be told instead
			}
		}
	}()
	select {
	case <-sent:
	case <-time.After(10 * time.Second):
		t.Fatal("stuck")
	}
	for range 2 {
		if f := <-p.Consumer(); f.Error() == nil {
			t.Error("an answer that nobody gave")
		}
	}
}
