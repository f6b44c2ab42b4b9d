package store

import (
	"fmt"
	"runtime"
	"strings"
)

// endRaftGoroutine is called on the paths where raft answers an error with a panic, which the host process could not recover. The
// goroutine ends instead; its deferred calls run, so raft answers what is pending and counts the goroutine as gone, and
// raft.Shutdown().Error() returns.
//
// Rejected: blocking for ever (Shutdown would wait for it), returning a lie (a vote or an entry that is not there), recovering
// (not our goroutine).
func endRaftGoroutine() {
	runtime.Goexit()
}

// replicating says whether the caller is one of raft's goroutines that send entries to followers. They take an error from GetLog
// calmly, and must not be ended: a decoder that only they can stop would be left behind, and raft's shutdown would wait for it.
func replicating() bool { return calledBy("/raft.(*Raft).replicate") }

// applying says whether the caller is about to apply a committed entry, and would panic if it is not there.
func applying() bool { return calledBy("/raft.(*Raft).processLogs") }

// calledBy looks for a function on the stack. That is crude, but raft gives its goroutines no other mark, and it is done only where an entry could
// not be read. Should raft rename a function, tests find it: Shutdown hangs, or the process panics.
func calledBy(suffix string) bool {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		frame, more := frames.Next()
		if strings.HasSuffix(frame.Function, suffix) {
			return true
		}
		if !more {
			return false
		}
	}
}

// Guard runs fn, which calls into raft, on a goroutine of its own and returns its error. If a failing store ends that goroutine
// (the paths on which raft would panic), or raft panics for another reason, Guard returns the cause as an error. raft.NewRaft and
// raft.BootstrapCluster must be called through it: they use the stores on their caller's goroutine.
func (s *Store) Guard(fn func() error) error {
	done := make(chan error, 1)
	go func() {
		err, returned := error(nil), false
		defer func() {
			if r := recover(); r != nil {
				err = fmt.Errorf("raft panicked: %v", r)
			} else if !returned {
				err = s.whyEnded()
			}
			done <- err
		}()
		err = fn()
		returned = true
	}()
	return <-done
}

func (s *Store) whyEnded() error {
	if err := s.usable(); err != nil {
		return err
	}
	return ErrCrashed // the only reason to end a goroutine that leaves the store as it was
}
