package history

import (
	"fmt"

	"github.com/quorumlock/quorumlock/watch"
)

// lockState is one lock between two revisions. It is a value, so that the linearizability checker can go back.
type lockState struct {
	holder  int64 // token, 0 when free
	last    int64 // highest token granted so far
	waiting int
	blind   bool // the holder is not known: what happened before was seen by nobody
	blurred bool // nor is how many wait
}

// freshLock is a lock of which nothing has been seen yet: free, or unknown if there are revisions that nobody saw.
func freshLock(blind bool) lockState { return lockState{blind: blind, blurred: blind} }

// unseen is the lock after revisions that nobody saw. Tokens rise across them.
func (s lockState) unseen() lockState { return lockState{last: s.last, blind: true, blurred: true} }

// step is the rule of the lock table for one lock, as far as it can be told without the sessions: the state after an event, and what is wrong with
// the event, as a check and a text. promoted tells whether a grant went to a claim that had waited.
func (s lockState) step(e *watch.Event, promoted bool) (next lockState, check, problem string) {
	next = s
	switch e.Kind {
	case watch.Queued:
		next.waiting++
		if !s.blind && !s.blurred && s.holder == 0 && s.waiting == 0 {
			return next, QueueRule, "waits for a lock that is free"
		}
	case watch.Cancelled:
		next.waiting = max(0, s.waiting-1)
		if !s.blurred && s.waiting == 0 {
			return next, QueueRule, "nobody waits"
		}
	case watch.Granted:
		return s.grant(e, promoted)
	case watch.Draining:
		if !s.blind && s.holder != e.Token {
			return next, Exclusion, fmt.Sprintf("the holder is %d", s.holder)
		}
	case watch.Released, watch.Expired, watch.Forced:
		next.holder, next.blind = 0, false
		if !s.blind && s.holder != e.Token {
			return next, Exclusion, fmt.Sprintf("the holder is %d", s.holder)
		}
	}
	return next, "", ""
}

func (s lockState) grant(e *watch.Event, promoted bool) (next lockState, check, problem string) {
	next = s
	next.holder, next.blind, next.last = e.Token, false, max(s.last, e.Token)
	if promoted {
		next.waiting = max(0, s.waiting-1)
	}
	switch {
	case !s.blind && s.holder != 0:
		return next, Exclusion, fmt.Sprintf("%d still holds it", s.holder)
	case e.Token <= s.last:
		return next, TokenRule, fmt.Sprintf("%d was granted before", s.last)
	case !promoted && !s.blurred && s.waiting > 0:
		return next, QueueRule, fmt.Sprintf("it overtakes %d that wait", s.waiting)
	}
	return next, "", ""
}

// shows says whether a read can have seen this state.
func (s lockState) shows(r *read) bool {
	switch {
	case s.between():
		return false
	case r.refused && r.holder == 0:
		// The error names nobody: others wait while none holds; or the claim was repeated, and by the time of the repeat the lock was free.
		return s.blind || s.blurred || s.holder != 0 || s.waiting > 0
	case r.refused:
		return s.blind || s.holder == r.holder
	}
	return (s.blind || s.holder == r.holder) && (s.blurred || s.waiting == r.waiting)
}

// between says that the lock is free although claims wait: what nobody can see, since the command that removes a holder also promotes.
func (s lockState) between() bool { return !s.blind && !s.blurred && s.holder == 0 && s.waiting > 0 }

func (s lockState) String() string {
	holder, waiting := fmt.Sprint(s.holder), fmt.Sprint(s.waiting)
	if s.blind {
		holder = "?"
	}
	if s.blurred {
		waiting = "?"
	}
	return fmt.Sprintf("{holder %s, %s waiting}", holder, waiting)
}
