package snaptest_test

import (
	"testing"

	"github.com/quorumlock/quorumlock/snapshots"
	"github.com/quorumlock/quorumlock/snapshots/snaptest"
)

func TestMemory(t *testing.T) {
	snaptest.Test(t, func(*testing.T) snapshots.Store { return &snaptest.Memory{} })
}
