//go:build !unix

package guard

import (
	"os"
	"syscall"
)

// Main does nothing: there are no guards here.
func Main() {}

// Heeded is all of them.
func Heeded(signals ...os.Signal) []os.Signal { return signals }

// Now is no moment here.
func Now() Moment { return Moment{} }

// Guard is never made here.
type Guard struct{}

// Start returns ErrUnsupported.
func Start(Spec, Moment) (*Guard, error) { return nil, ErrUnsupported }

func (*Guard) Done() <-chan struct{} { return nil }
func (*Guard) Result() Result        { return Result{Err: ErrUnsupported} }
func (*Guard) Extend(Moment)         {}
func (*Guard) Signal(syscall.Signal) {}
func (*Guard) Kill()                 {}
func (*Guard) Stopping() bool        { return false }
