package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/raft"
)

// checkedEntries is how many of the latest entries Open reads at least. It always reads all that follow the newest snapshot, for
// raft will.
const checkedEntries = 1000

// checkMedium verifies what raft is going to start from and returns the log, ready for use. What it accepts, raft.NewRaft can
// read without panicking, and raft's main loop can apply without meeting a gap.
func checkMedium(ctx context.Context, m *medium) (*sealedLogs, error) {
	logs, err := openSealedLogs(m.logs)
	if err != nil {
		return nil, &CorruptError{What: "log", Err: err}
	}
	covered, err := checkSnapshot(m.snapshots)
	if err != nil {
		return nil, err
	}
	if err := dropCovered(logs, covered); err != nil {
		return nil, err
	}
	return logs, checkEntries(ctx, logs, covered)
}

// checkSnapshot verifies the newest snapshot and returns the index it covers, 0 without one.
func checkSnapshot(snaps raft.SnapshotStore) (uint64, error) {
	list, err := snaps.List()
	if err != nil {
		return 0, fmt.Errorf("list snapshots: %w", err)
	}
	if len(list) == 0 {
		return 0, nil
	}
	_, content, err := snaps.Open(list[0].ID)
	if err != nil {
		return 0, &CorruptError{What: "snapshot " + list[0].ID, Err: err}
	}
	return list[0].Index, content.Close()
}

// dropCovered empties a log that ends before the newest snapshot. Such a log is left when the process dies after a snapshot was
// installed and before the next entry came, which would leave a gap behind it.
func dropCovered(logs *sealedLogs, covered uint64) error {
	first, last := logs.bounds()
	if last == 0 || last >= covered {
		return nil
	}
	steps, err := logs.planDeletion(first, last)
	if err != nil {
		return err
	}
	for _, d := range steps {
		if err := logs.remove(d); err != nil {
			return fmt.Errorf("drop log that the snapshot covers: %w", err)
		}
	}
	return nil
}

func checkEntries(ctx context.Context, logs *sealedLogs, covered uint64) error {
	first, last := logs.bounds()
	if last == 0 {
		return nil
	}
	if first > covered+1 {
		return corrupt("log", "it begins at entry %d, the newest snapshot covers up to %d", first, covered)
	}
	from := covered + 1
	if last >= checkedEntries {
		from = min(from, last-checkedEntries+1)
	}
	for index := max(from, first); index <= last; index++ {
		var entry raft.Log
		if err := logs.get(index, &entry); err != nil {
			if errors.Is(err, raft.ErrLogNotFound) {
				err = corrupt("log", "entry %d is missing", index)
			}
			return err
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("check log: %w", err)
		}
	}
	return nil
}
