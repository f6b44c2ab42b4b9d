package store

import (
	"encoding/binary"
	"errors"
	"io"

	"github.com/hashicorp/raft"
)

// Succession is what a member leaves to its successor: one of another cluster, under a server id of its own, and alone in it.
type Succession struct {
	Identity    Identity
	Index, Term uint64 // of the last entry that State covers
	State       func(w io.Writer) error
}

// Succeed gives the member's identity up for good and hands its place to a successor: the next Open finds a store with a new
// server id, which is returned, with the identity given, and with a snapshot in which it is the only voter. All of it, or
// nothing: after a crash, or an error, at any point the store is the former one, as it was, or the successor's. Until then this
// one goes on. The snapshot is read back and verified (Options.VerifySnapshot) before the former store is given up.
func (s *Store) Succeed(sn Succession) (serverID string, err error) {
	serverID = newServerID()
	return serverID, s.write("hand over to a successor", func() error {
		next, err := s.medium.succeed(serverID)
		if err != nil {
			return err
		}
		if err := s.fill(next, serverID, sn); err != nil {
			return errors.Join(err, next.discard())
		}
		return next.commit(sn.Identity)
	})
}

// successor is the store of a successor while it is being made, apart from the present one.
type successor struct {
	stable    valueStore
	snapshots raft.SnapshotStore
	// commit makes it the one that the next Open finds, by one atomic write; discard removes it. Either ends its use.
	commit  func(Identity) error
	discard func() error
}

// fill writes the term, the snapshot, and nothing else: there is no vote, since nobody has asked this server for one, and no
// entry.
func (s *Store) fill(next *successor, serverID string, sn Succession) error {
	key := []byte(keyCurrentTerm)
	term := binary.BigEndian.AppendUint64(nil, sn.Term)
	if err := next.stable.Set(key, sealValue(key, term)); err != nil {
		return err
	}
	self := raft.Server{ID: raft.ServerID(serverID), Address: raft.ServerAddress(serverID), Suffrage: raft.Voter}
	alone := raft.Configuration{Servers: []raft.Server{self}}
	sink, err := next.snapshots.Create(raft.SnapshotVersionMax, sn.Index, sn.Term, alone, sn.Index, plainPeers{})
	if err != nil {
		return err
	}
	if err := sn.State(sink); err != nil {
		return errors.Join(err, sink.Cancel())
	}
	if err := sink.Close(); err != nil {
		return err
	}
	return s.readBack(next.snapshots, sink.ID())
}

func (s *Store) readBack(snapshots raft.SnapshotStore, id string) error {
	_, content, err := snapshots.Open(id)
	if err != nil {
		return err
	}
	defer content.Close()
	if s.snaps.verify == nil {
		return nil
	}
	if err := s.snaps.verify(content); err != nil {
		return &RefusedError{Snapshot: id, Err: err}
	}
	return nil
}

// plainPeers is all that raft's file store wants of a transport: the form in which peers stood in the snapshots of its first
// version.
type plainPeers struct{ raft.Transport }

func (plainPeers) EncodePeer(_ raft.ServerID, addr raft.ServerAddress) []byte { return []byte(addr) }

// ErrNoMember: nothing is kept in a store of which Options.Existing asks for a member.
var ErrNoMember = errors.New("it holds no member of a cluster")

func errNoMember(name string) error { return &DirError{Dir: name, Err: ErrNoMember} }
