package commit

import (
	"testing"

	"github.com/quorumlock/quorumlock/internal/locktable"
)

// A command costs the batcher a fixed handful of allocations, not some for each other command in its entry. Measured on a log that answers at once.
func TestACommandAllocatesLittle(t *testing.T) {
	const most = 8 // measured: 2
	results := make([]locktable.Result, 256)
	batcher := New(Env{Propose: func(cmds []*locktable.Command) func() ([]locktable.Result, error) {
		return func() ([]locktable.Result, error) { return results[:len(cmds)], nil }
	}}, Options{})
	defer batcher.Stop(nil)
	cmd := word(1)
	var failed error
	n := testing.AllocsPerRun(500, func() {
		if _, err := batcher.Do(t.Context(), cmd); err != nil {
			failed = err
		}
	})
	if failed != nil {
		t.Fatal(failed)
	}
	t.Logf("%v allocations", n)
	if n > most {
		t.Errorf("%v allocations for a command, at most %d", n, most)
	}
}
