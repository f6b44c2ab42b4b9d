// Package guard runs a command that must not outlive a lease, whatever becomes of the process that holds the lease.
//
// The command runs under a process of its own, the guard: this program, started again. It kills the command, with everything that came of it, when the lease
// nears its end by the guard's own clock, and at once when the pipe to the holder breaks. The holder prolongs the lease over that pipe; one that is stopped or
// dead does not. When Done is closed nothing of the command is left.
//
// On Linux the guard adopts orphans, so it finds processes that left the command's group or session too; if the guard itself dies, its parent inherits and
// kills them. Elsewhere only the process group is killed. Not covered anywhere: the death of both at one moment, but for the command's first process, which
// the kernel kills; what other services, such as a container runtime, do on the command's behalf; processes that neither may kill, such as one of another
// user, which are waited for.
package guard

import (
	"errors"
	"os"
	"time"
)

// ErrUnsupported is what Start returns on systems without process groups.
var ErrUnsupported = errors.New("commands under a lock need a Unix system")

// ErrDied is the Err of a Result: the guard died, and the command was killed in its place.
var ErrDied = errors.New("the process that guards the command died")

// Spec says what to run. The command's standard streams are its caller's own.
type Spec struct {
	Path  string // of the file, as exec.LookPath finds it
	Args  []string
	Env   []string
	Files [3]*os.File
	// Term and Kill are how long before the end of the lease the command is told to end (SIGTERM), and killed.
	Term, Kill time.Duration
}

// Result is how the command ended.
type Result struct {
	Code    int   `json:"code"`    // its exit code, 128 and the signal if one killed it
	Stopped bool  `json:"stopped"` // it was told to end since the lease neared its end
	Killed  bool  `json:"killed"`  // it was killed: the lease neared its end, or Kill was called
	Left    int   `json:"left"`    // processes that it left behind, which were killed
	Err     error `json:"-"`       // it did not run, or the guard failed
}

// StartError is a command that could not be started.
type StartError struct {
	Path     string
	NotFound bool
	Text     string
}

func (e *StartError) Error() string { return e.Path + ": " + e.Text }

// Moment is a point in time by clocks that the holder and the guard share. Values of another boot or machine mean nothing.
type Moment struct {
	Raw  time.Duration `json:"raw"`  // does not stand still while the clock is slewed
	Boot time.Duration `json:"boot"` // goes on in suspend
}

// Add is the moment d later.
func (m Moment) Add(d time.Duration) Moment { return Moment{Raw: m.Raw + d, Boot: m.Boot + d} }
