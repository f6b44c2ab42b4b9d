//go:build unix

package quorumlock

import (
	"context"
	"errors"
	"os"
	ossignal "os/signal"
	"slices"
	"syscall"
	"testing"
	"time"
)

// guarded keeps signals from ending the tests, and shows that they came.
func guarded(t *testing.T, signals ...os.Signal) <-chan os.Signal {
	t.Helper()
	c := make(chan os.Signal, 8)
	ossignal.Notify(c, signals...)
	t.Cleanup(func() { ossignal.Stop(c) })
	return c
}

// sendSelf sends a signal to this process and waits until it has come.
func sendSelf(t *testing.T, seen <-chan os.Signal, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(os.Getpid(), sig); err != nil {
		t.Fatal(err)
	}
	select {
	case <-seen:
	case <-time.After(30 * time.Second):
		t.Fatalf("%v did not come", sig)
	}
}

// A signal of the operating system ends a node: those that end a service if nothing else is said, or those that were given
// and no others.
func TestSignalEndsTheNode(t *testing.T) {
	for name, c := range map[string]struct {
		given []os.Signal
		other syscall.Signal // ends nothing
		sent  syscall.Signal
	}{
		"SIGTERM": {nil, syscall.SIGUSR1, syscall.SIGTERM},
		"SIGINT":  {nil, syscall.SIGUSR1, syscall.SIGINT},
		"given":   {[]os.Signal{syscall.SIGUSR2}, syscall.SIGTERM, syscall.SIGUSR2},
	} {
		t.Run(name, func(t *testing.T) {
			n := nodeAlone(t)
			seen := guarded(t, c.other, c.sent)
			caught, release := catch(c.given)
			ended := make(chan error, 1)
			go func() { ended <- n.endWhenTold(t.Context(), "leave on signal", n.Leave, 20*time.Second, caught) }()
			sendSelf(t, seen, c.other)
			if n.closing.Load() || len(caught) > 0 {
				t.Errorf("%v ended the node", c.other)
			}
			sendSelf(t, seen, c.sent)
			if err := <-ended; err != nil {
				t.Errorf("ended with %v", err)
			}
			closedNow(t, n)
			release()
			sendSelf(t, seen, c.sent)
			if len(caught) > 0 {
				t.Errorf("%v is still caught", c.sent)
			}
		})
	}
}

// A service that was told twice must not wait for work that does not end.
func TestSecondSignalEndsTheWait(t *testing.T) {
	n := nodeAlone(t)
	seen := guarded(t, syscall.SIGTERM)
	caught, release := catch(nil)
	defer release()
	working, told, goOn := make(chan struct{}), make(chan struct{}), make(chan struct{})
	worked := make(chan error, 1)
	go func() {
		worked <- NewMutex(n, "k").Do(context.Background(), func(ctx context.Context, _ Token) error {
			close(working)
			<-ctx.Done()
			close(told)
			<-goOn // work that does not look at its context
			return nil
		})
	}()
	<-working
	ended := make(chan error, 1)
	go func() { ended <- n.endWhenTold(t.Context(), "leave on signal", n.Leave, time.Minute, caught) }()
	sendSelf(t, seen, syscall.SIGTERM)
	<-told
	select {
	case err := <-ended:
		t.Fatalf("ended beside a callback: %v", err)
	default:
	}
	<-time.After(echoWindow) // begun before told was closed
	sendSelf(t, seen, syscall.SIGTERM)
	err := <-ended
	if wait := (*WaitError)(nil); !errors.As(err, &wait) || !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
	close(goOn)
	<-worked
	<-n.closed // the rest went on in the background
}

// TestSignalsIfNoneAreGiven: a service is told to stop by SIGTERM, and by the interrupt key.
func TestSignalsIfNoneAreGiven(t *testing.T) {
	seen := guarded(t, os.Interrupt, syscall.SIGTERM)
	caught, release := catch(nil)
	defer release()
	var got []os.Signal
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		sendSelf(t, seen, sig)
		got = append(got, <-caught)
	}
	if want := []os.Signal{os.Interrupt, syscall.SIGTERM}; !slices.Equal(got, want) {
		t.Errorf("caught %v, not %v", got, want)
	}
}
