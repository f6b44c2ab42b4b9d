package quorumlock

import (
	"context"
	"errors"
	"fmt"
	"os"
	ossignal "os/signal"
	"syscall"
	"time"
)

// LeaveOnSignal waits until the process is told to stop, and then takes the node out of the cluster as Leave does. It is
// what the main function of a service ends with, if its instances are replaced by new ones and not restarted in place:
//
//	return node.LeaveOnSignal(ctx, 20*time.Second)
//
// Told to stop means one of signals (os.Interrupt and SIGTERM if none are given), the end of ctx, or the end of the node
// itself: one that has failed is closed, and the error matches ErrFailed, for the process to be started anew. A service
// that finishes its own requests first waits for a context of its own (signal.NotifyContext), finishes them, and then
// calls this with that context, which has ended.
//
// bound is how long the whole takes from then on at most; keep it below what the environment waits before it kills
// (terminationGracePeriodSeconds, TimeoutStopSec). Callbacks that do not return use it up, then the removal; the last
// quarter of it, 3 s at most, is for stopping. Whatever the removal lacks then the error says. When bound has passed, or
// a signal comes while the node leaves, LeaveOnSignal returns a *WaitError and the rest goes on in the background: exit
// then, and the others replace the node as one that has crashed. A signal within half a second of the end's beginning is
// taken for an echo of what began it: terminals tell a whole process group, and parents pass on what they were told.
//
// The signals are caught only while LeaveOnSignal runs. An error is a *FieldError if bound is not positive, when nothing
// was waited for.
func (n *Node) LeaveOnSignal(ctx context.Context, bound time.Duration, signals ...os.Signal) error {
	return n.endOnSignal(ctx, "leave on signal", n.Leave, bound, signals)
}

// CloseOnSignal is LeaveOnSignal with Close in the place of Leave: for a node that starts again in its data directory.
func (n *Node) CloseOnSignal(ctx context.Context, bound time.Duration, signals ...os.Signal) error {
	end := func(context.Context) error { return n.Close() }
	return n.endOnSignal(ctx, "close on signal", end, bound, signals)
}

func (n *Node) endOnSignal(
	ctx context.Context, op string, end func(context.Context) error, bound time.Duration, signals []os.Signal,
) error {
	if bound <= 0 {
		return fmt.Errorf("%s: %w", op, &FieldError{Field: "bound", Value: bound, Problem: "must be positive"})
	}
	caught, release := catch(signals)
	defer release()
	return n.endWhenTold(ctx, op, end, bound, caught)
}

// catch has signals delivered to a channel until release is called. There is room for the one that begins the end and the
// one that hurries it.
func catch(signals []os.Signal) (caught <-chan os.Signal, release func()) {
	if len(signals) == 0 {
		signals = []os.Signal{os.Interrupt, syscall.SIGTERM}
	}
	c := make(chan os.Signal, 2)
	ossignal.Notify(c, signals...)
	return c, func() { ossignal.Stop(c) }
}

// endWhenTold waits for the first signal and calls end. The end of ctx begins it like a signal, and so can not bound it.
func (n *Node) endWhenTold(
	ctx context.Context, op string, end func(context.Context) error, bound time.Duration, caught <-chan os.Signal,
) error {
	select {
	case s := <-caught:
		n.log.Info("told to stop", "signal", s)
	case <-ctx.Done():
		n.log.Info("told to stop", "reason", context.Cause(ctx))
	case <-n.done:
	}
	var failed error
	if err := n.failed(); errors.Is(err, ErrFailed) {
		failed = err
	}
	return errors.Join(failed, endWithin(ctx, op, end, bound, caught))
}

// endWithin calls end, for bound at most or until a signal comes.
func endWithin(ctx context.Context, op string, end func(context.Context) error, bound time.Duration, caught <-chan os.Signal) error {
	timer := time.NewTimer(bound)
	defer timer.Stop()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), bound-stopShare(bound))
	done := make(chan error, 1)
	go func() {
		defer cancel()
		done <- end(ctx)
	}()
	for begun := time.Now(); ; {
		select {
		case err := <-done:
			return err
		case s := <-caught:
			if time.Since(begun) < echoWindow {
				continue
			}
			cancel() // what is left of end need not ask the others any more
			return &WaitError{Op: op, Waiting: fmt.Sprintf("cut short by a signal (%v)", s), Err: context.Canceled}
		case <-timer.C:
			return &WaitError{Op: op, Waiting: fmt.Sprintf("not done within %v", bound), Err: context.DeadlineExceeded}
		}
	}
}

// echoWindow is within which signals are one wish to stop. A person who presses the keys again is slower.
const echoWindow = 500 * time.Millisecond

// stopShare is what is kept of bound for stopping after the removal was given up, so that its error is seen. Stopping
// takes milliseconds, and stopBound and a little more when the disk hangs.
func stopShare(bound time.Duration) time.Duration { return min(bound/4, stopBound+time.Second) }
