package quorumlock

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/backup"
	"github.com/quorumlock/quorumlock/internal/router"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// This file is how a client gets the state: from a member, in pieces, since calls are bounded in size.

const (
	pieceSize   = 1 << 20
	mostGiven   = 4                // states that a member gives away at the same time
	givenIdle   = 30 * time.Second // after which one that nobody asks for any more is forgotten
	pieceBound  = 10 * time.Second // for one piece
	sourceBound = 5 * time.Second  // for a member to begin, before the next one is asked beside it
)

// givenStates are the states on their way to clients. The zero value is ready.
type givenStates struct {
	mu   sync.Mutex
	last uint64
	byID map[uint64]*givenState
}

// givenState is encoded as fast as its pieces are asked for.
type givenState struct {
	pieces *io.PipeReader
	sum    hash.Hash
	idle   *time.Timer

	mu   sync.Mutex
	next uint64 // piece
}

// add begins to give a state; nil if there are too many.
func (g *givenStates) add(pieces *io.PipeReader) (id uint64, s *givenState) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.byID) >= mostGiven {
		return 0, nil
	}
	if g.byID == nil {
		g.byID = make(map[uint64]*givenState)
	}
	g.last++
	id = g.last
	s = &givenState{pieces: pieces, sum: sha256.New(), next: 1}
	s.idle = time.AfterFunc(givenIdle, func() { g.end(id) })
	g.byID[id] = s
	return id, s
}

func (g *givenStates) get(id uint64) *givenState {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.byID[id]
}

// end forgets a state, and ends the goroutine that encodes it.
func (g *givenStates) end(id uint64) {
	g.mu.Lock()
	s := g.byID[id]
	delete(g.byID, id)
	g.mu.Unlock()
	if s != nil {
		s.idle.Stop()
		_ = s.pieces.CloseWithError(errForgotten)
	}
}

var errForgotten = errors.New("nobody asks for it any more")

// serveSnapshot answers a client from this member's own state.
func (n *Node) serveSnapshot(ctx context.Context, req wire.SnapshotRequest) wire.SnapshotReply {
	if req.Piece > 0 {
		return n.givePiece(req)
	}
	if n.isClient() {
		return wire.SnapshotReply{Status: wire.StatusNotLeader, Detail: "a client itself"}
	}
	source, err := n.ownState(ctx, req.Local)
	if err != nil {
		return wire.SnapshotReply{Status: wire.StatusRefused, Detail: err.Error()}
	}
	r, w := io.Pipe()
	id, state := n.given.add(r)
	if state == nil {
		return wire.SnapshotReply{Status: wire.StatusOverloaded, Detail: fmt.Sprintf("%d states are being given away already", mostGiven)}
	}
	started := n.spawn(func() {
		defer context.AfterFunc(n.life, func() { n.given.end(id) })()
		_ = w.CloseWithError(source.write(n.life, w)) // nil is io.EOF
	})
	if !started {
		n.given.end(id)
		return wire.SnapshotReply{Status: wire.StatusStopping}
	}
	return wire.SnapshotReply{Status: wire.StatusDone, ID: id, Header: source.header.Encode()}
}

func (n *Node) givePiece(req wire.SnapshotRequest) wire.SnapshotReply {
	state := n.given.get(req.ID)
	if state == nil {
		return wire.SnapshotReply{Status: wire.StatusRefused, Detail: "the snapshot is not known, or not any more"}
	}
	state.idle.Reset(givenIdle)
	reply, more := state.piece(req)
	if !more {
		n.given.end(req.ID)
	}
	return reply
}

func (s *givenState) piece(req wire.SnapshotRequest) (reply wire.SnapshotReply, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if req.Piece != s.next {
		return wire.SnapshotReply{Status: wire.StatusRefused, Detail: fmt.Sprintf("piece %d instead of %d", req.Piece, s.next)}, false
	}
	s.next++
	data := make([]byte, pieceSize)
	size, err := io.ReadFull(s.pieces, data)
	s.sum.Write(data[:size])
	reply = wire.SnapshotReply{Status: wire.StatusDone, ID: req.ID, Data: data[:size]}
	switch err {
	case nil:
		return reply, true
	case io.EOF, io.ErrUnexpectedEOF:
		reply.Sum = s.sum.Sum(nil)
		return reply, false
	}
	return wire.SnapshotReply{Status: wire.StatusRefused, Detail: err.Error()}, false
}

// memberState begins to fetch a state from the first member that gives one.
func (n *Node) memberState(ctx context.Context, local bool) (snapshotSource, error) {
	if err := n.awaitMember(ctx, opSnapshot, ""); err != nil {
		return snapshotSource{}, err
	}
	source, _, err := firstAnswer(ctx, n.members(), func(ctx context.Context, p router.Peer) (snapshotSource, error) {
		return n.beginFetch(ctx, p, local)
	})
	if err == nil {
		return source, nil
	}
	if ctx.Err() != nil {
		err = ended(ctx)
	}
	return snapshotSource{}, &WaitError{
		Op: opSnapshot, Waiting: "no member gives its state to this client, which has none of its own", Err: joined(err, !errors.Is(err, ErrOverloaded)),
	}
}

func (n *Node) beginFetch(ctx context.Context, p router.Peer, local bool) (snapshotSource, error) {
	ctx, cancel := context.WithTimeout(ctx, sourceBound)
	defer cancel()
	reply, err := n.callSnapshot(ctx, p, wire.SnapshotRequest{Local: local})
	if err != nil {
		return snapshotSource{}, err
	}
	h, err := backup.DecodeHeader(reply.Header)
	if err != nil {
		return snapshotSource{}, fmt.Errorf("snapshot of %s: %w", p.Addr, err)
	}
	return snapshotSource{h, func(ctx context.Context, w io.Writer) error { return n.fetch(ctx, p, reply.ID, w) }}, nil
}

// fetch gets one piece after the other. What it has written is the state only if it returns nil.
func (n *Node) fetch(ctx context.Context, p router.Peer, id uint64, w io.Writer) error {
	sum := sha256.New()
	w = io.MultiWriter(w, sum)
	for piece := uint64(1); ; piece++ {
		reply, err := n.fetchPiece(ctx, p, wire.SnapshotRequest{ID: id, Piece: piece})
		if err != nil {
			return fmt.Errorf("snapshot of %s: %w", p.Addr, err)
		}
		if _, err := w.Write(reply.Data); err != nil {
			return err
		}
		switch {
		case len(reply.Sum) == 0:
		case bytes.Equal(reply.Sum, sum.Sum(nil)):
			return nil
		default:
			return fmt.Errorf("snapshot of %s: it is not what was sent", p.Addr)
		}
	}
}

func (n *Node) fetchPiece(ctx context.Context, p router.Peer, req wire.SnapshotRequest) (wire.SnapshotReply, error) {
	ctx, cancel := context.WithTimeout(ctx, pieceBound)
	defer cancel()
	defer context.AfterFunc(n.asking, cancel)()
	return n.callSnapshot(ctx, p, req)
}

func (n *Node) callSnapshot(ctx context.Context, p router.Peer, req wire.SnapshotRequest) (wire.SnapshotReply, error) {
	b, err := n.calls.Call(ctx, p.Addr, p.ID, methodSnapshot, wire.AppendSnapshotRequest(nil, &req))
	if err != nil {
		return wire.SnapshotReply{}, err
	}
	reply, err := wire.DecodeSnapshotReply(b)
	switch {
	case err != nil || reply.Status == wire.StatusDone:
		return reply, err
	case reply.Status == wire.StatusOverloaded:
		return reply, fmt.Errorf("%w: %s", ErrOverloaded, reply.Detail)
	}
	return reply, fmt.Errorf("%v: %s", reply.Status, reply.Detail)
}
