package quorumlock

import (
	"sync"

	"github.com/hashicorp/raft"
)

// AppendEntriesPipeline implements raft.Transport.
func (t *raftTransport) AppendEntriesPipeline(id raft.ServerID, target raft.ServerAddress) (raft.AppendPipeline, error) {
	p, err := t.NetworkTransport.AppendEntriesPipeline(id, target)
	if err != nil {
		return nil, err
	}
	return drain(p), nil
}

// drainedPipeline takes answered requests out of raft's pipeline at once and keeps them until raft asks.
//
// Raft's own pipeline (v1.8.0) hands them over one by one, without a buffer, to a decoder that stops for good at the first answer that is missing, refuses,
// or tells of a later term. If the sender is about to send another request just then, the pipeline waits for the decoder and the sender for
// the pipeline, for ever: that follower gets no entry any more while its heartbeats go on, and a shutdown waits for the sender.
type drainedPipeline struct {
	raft.AppendPipeline
	answered chan raft.AppendFuture
	closed   chan struct{}
	closing  sync.Once
}

func drain(p raft.AppendPipeline) *drainedPipeline {
	d := &drainedPipeline{AppendPipeline: p, answered: make(chan raft.AppendFuture), closed: make(chan struct{})}
	go d.run()
	return d
}

// run keeps no more than the sender sends after the decoder has stopped, which is a request or two: then the sender finds out.
func (d *drainedPipeline) run() {
	var kept []raft.AppendFuture
	for {
		var out chan raft.AppendFuture
		var next raft.AppendFuture
		if len(kept) > 0 {
			out, next = d.answered, kept[0]
		}
		select {
		case f := <-d.AppendPipeline.Consumer():
			kept = append(kept, f)
		case out <- next:
			kept = kept[1:]
		case <-d.closed:
			return
		}
	}
}

// Consumer implements raft.AppendPipeline.
func (d *drainedPipeline) Consumer() <-chan raft.AppendFuture { return d.answered }

// Close implements raft.AppendPipeline.
func (d *drainedPipeline) Close() error {
	d.closing.Do(func() { close(d.closed) })
	return d.AppendPipeline.Close()
}
