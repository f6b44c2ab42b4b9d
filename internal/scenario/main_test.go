// Package scenario_test plays what went wrong for users of other distributed locks, Raft groups and gossip pools against whole clusters of real
// nodes. Every cluster test ends with a comparison of the members' states, and every one in which a fault is planted also shows that it bit.
package scenario_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		os.Exit(holdDir(dir))
	}
	goleak.VerifyTestMain(m)
}
