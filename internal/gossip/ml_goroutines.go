//go:build !wasip1

package gossip

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"runtime/pprof"
	"time"
)

// memberlist's Shutdown returns before its goroutines end, and nothing in its API tells when they have: the longest, a probe of a
// dead peer, goes on for two probe intervals. A goroutine inherits the profiling labels of the one that starts it, so
// memberlist is created under a label of its own, and Close looks for the label in the goroutine profile until it is gone.
// (Rejected: a fixed wait, which is either too short or slow, and a patched memberlist, which an importer could not get.)
// The label also shows up in the host's profiles, where it says whose the goroutines are.
const labelKey = "quorumlock-gossip"

const (
	goroutinesEnd = 10 * time.Second       // Close gives up after it; a bug then, and it says so
	firstLook     = time.Millisecond       // doubled up to
	lastLook      = 100 * time.Millisecond // since a look stops the world for a moment
)

// goroutineGroup is all goroutines started by one function, directly or not.
type goroutineGroup struct{ label string }

func newGoroutineGroup() goroutineGroup {
	return goroutineGroup{label: fmt.Sprintf("%016x", rand.Uint64())}
}

// run calls fn on a goroutine of the group and waits for it. It takes a goroutine of its own because the caller's labels can be
// set but not read back without the caller's context.
func (g goroutineGroup) run(fn func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels(labelKey, g.label)))
		fn()
	}()
	<-done
}

// wait returns when no goroutine of the group is left.
func (g goroutineGroup) wait() error {
	deadline := time.Now().Add(goroutinesEnd)
	for pause := firstLook; ; pause = min(2*pause, lastLook) {
		alive, err := g.alive()
		if err != nil {
			return err
		}
		if !alive {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("goroutines of memberlist are left %s after its shutdown", goroutinesEnd)
		}
		time.Sleep(pause)
	}
}

func (g goroutineGroup) alive() (bool, error) {
	var buf bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&buf, 1); err != nil {
		return false, fmt.Errorf("look for goroutines of memberlist: %w", err)
	}
	return bytes.Contains(buf.Bytes(), []byte(g.label)), nil
}
