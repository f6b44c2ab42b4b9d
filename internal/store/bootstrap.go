package store

import (
	"errors"
	"fmt"
)

// dropUnfinishedBootstrap makes a store empty again in which raft.BootstrapCluster was cut short. It writes the first term and then the first entry; a crash
// in between leaves a term without anything else, which raft takes for state, so that the bootstrap can neither be repeated nor go on. Nothing can
// have been promised by such a member: a vote, an entry or a snapshot would be there.
func (s *Store) dropUnfinishedBootstrap() error {
	term, err := s.stable.GetUint64([]byte(keyCurrentTerm))
	if errors.Is(err, errNotFound) || (err == nil && term == 0) {
		return nil
	}
	if err != nil {
		return err
	}
	bare, err := s.bare()
	if err != nil || term != 1 || !bare {
		return err
	}
	s.logger.Info("a bootstrap was cut short and starts anew")
	return s.stable.put([]byte(keyCurrentTerm), make([]byte, 8))
}

// bare tells that there is no vote, no entry and no snapshot.
func (s *Store) bare() (bool, error) {
	if _, _, err := s.stable.vote(); !errors.Is(err, errNotFound) {
		return false, err
	}
	last, err := s.logs.LastIndex()
	if err != nil || last != 0 {
		return false, err
	}
	snapshots, err := s.snaps.List()
	if err != nil {
		return false, fmt.Errorf("list snapshots: %w", err)
	}
	return len(snapshots) == 0, nil
}
