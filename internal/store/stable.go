package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
)

// The keys that hashicorp/raft uses.
const (
	keyCurrentTerm  = "CurrentTerm"
	keyLastVoteTerm = "LastVoteTerm"
	keyLastVoteCand = "LastVoteCand"
)

// keyVote holds term and candidate of the last vote in one value.
//
// raft writes them one after the other. A crash in between would leave the new term beside the candidate of an earlier vote, and
// raft answers such a "duplicate" request of that candidate with a vote without comparing logs. So the term is kept back until
// the candidate comes, and both are written at once. raft gives its vote only after the second write.
const keyVote = "quorumlock/vote"

// guardedStable is raft's StableStore.
type guardedStable struct {
	s      *Store
	values valueStore

	mu       sync.Mutex
	voteTerm uint64 // kept back: its candidate has not come yet
	pending  bool
}

func (g *guardedStable) Set(key, value []byte) error {
	if string(key) == keyLastVoteCand {
		return g.setCandidate(value)
	}
	return g.put(key, value)
}

func (g *guardedStable) Get(key []byte) ([]byte, error) {
	if string(key) == keyLastVoteCand {
		_, candidate, err := g.vote()
		return candidate, err
	}
	return g.get(key)
}

// SetUint64 ends the calling goroutine if the term cannot be saved: raft panics on that error.
func (g *guardedStable) SetUint64(key []byte, value uint64) error {
	if string(key) == keyLastVoteTerm {
		return g.holdVoteTerm(value)
	}
	err := g.put(key, binary.BigEndian.AppendUint64(nil, value))
	if err != nil && string(key) == keyCurrentTerm {
		endRaftGoroutine()
	}
	return err
}

func (g *guardedStable) GetUint64(key []byte) (uint64, error) {
	if string(key) == keyLastVoteTerm {
		term, _, err := g.vote()
		return term, err
	}
	value, err := g.get(key)
	if err != nil {
		return 0, err
	}
	if len(value) != 8 {
		return 0, g.s.fail(corrupt(string(key), "%d bytes instead of 8", len(value)))
	}
	return binary.BigEndian.Uint64(value), nil
}

func (g *guardedStable) holdVoteTerm(term uint64) error {
	if err := g.s.usable(); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.voteTerm, g.pending = term, true
	return nil
}

func (g *guardedStable) setCandidate(candidate []byte) error {
	g.mu.Lock()
	term, pending := g.voteTerm, g.pending
	g.pending = false
	g.mu.Unlock()
	if !pending {
		return errors.New("vote for a candidate without its term")
	}
	record := binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(candidate)), term)
	return g.put([]byte(keyVote), append(record, candidate...))
}

// vote returns the last vote given. raft takes a nil candidate for "none", so an empty one is returned as such, not as nil.
func (g *guardedStable) vote() (term uint64, candidate []byte, err error) {
	record, err := g.get([]byte(keyVote))
	if err != nil {
		return 0, nil, err
	}
	if len(record) < 8 {
		return 0, nil, g.s.fail(corrupt(keyVote, "%d bytes", len(record)))
	}
	return binary.BigEndian.Uint64(record), record[8:], nil
}

func (g *guardedStable) put(key, value []byte) error {
	return g.s.write("write "+string(key), func() error { return g.values.Set(key, sealValue(key, value)) })
}

// get fails like a write would when the value cannot be read: a member that forgot its vote must not vote.
func (g *guardedStable) get(key []byte) ([]byte, error) {
	if err := g.s.usable(); err != nil {
		return nil, err
	}
	sealed, err := g.values.Get(key)
	if err != nil && err.Error() == errNotFound.Error() {
		return nil, errNotFound
	}
	var value []byte
	if err == nil {
		value, err = unsealValue(key, sealed)
	}
	if err != nil {
		return nil, g.s.fail(fmt.Errorf("read stable store: %w", &CorruptError{What: string(key), Err: err}))
	}
	return value, nil
}
