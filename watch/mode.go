package watch

import "strconv"

// Mode is how a lock is held or wanted. It is quorumlock.Mode, whose constants name the same values.
type Mode uint8

// The modes. The values travel between nodes of different versions and never change.
const (
	Exclusive Mode = 0 // a Mutex, the write side of an RWMutex, one of the names of a MultiMutex, or an election
	Shared    Mode = 1 // the read side of an RWMutex
	Permits   Mode = 2 // a Semaphore
)

var modeNames = [...]string{Exclusive: "exclusive", Shared: "shared", Permits: "permits"}

// String is the mode's name in small letters, or "mode(7)" for one that this version does not know.
func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return "mode(" + strconv.Itoa(int(m)) + ")"
}
