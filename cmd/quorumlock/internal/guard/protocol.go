//go:build unix

package guard

import "time"

// The two speak in lines of JSON: orders to the guard on its descriptor 3, reports from it on 4.

// guardName is the name under which the program starts itself as a guard. No flag or variable says so: the command would inherit it.
const guardName = "quorumlock-guard"

const (
	ordersFD  = 3
	reportsFD = 4
)

type order struct {
	Start  *startOrder `json:"start,omitempty"`
	Until  *Moment     `json:"until,omitempty"` // an absolute end: an order that lay in the pipe must not count from when it is read
	Signal int         `json:"signal,omitempty"`
	Kill   bool        `json:"kill,omitempty"`
}

type startOrder struct {
	Path string        `json:"path"`
	Args []string      `json:"args"`
	Term time.Duration `json:"term"`
	Kill time.Duration `json:"kill"`
}

type report struct {
	Started  int     `json:"started,omitempty"` // process id, which is the group's
	Failed   string  `json:"failed,omitempty"`  // it could not be started
	NotFound bool    `json:"not_found,omitempty"`
	Stopping bool    `json:"stopping,omitempty"` // it was told to end
	Done     *Result `json:"done,omitempty"`
}

// left is how long it is until m, by the clock that ran most.
func (m Moment) left() time.Duration {
	now := Now()
	return min(m.Raw-now.Raw, m.Boot-now.Boot)
}

const never = time.Duration(1 << 62) // what a clock shows that cannot be read: every lease is over, and none begins
