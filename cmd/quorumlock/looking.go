package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock"
)

// What keeps a command that looks below 2 s during an outage: how long it waits for the leader before it takes what a single member knows, how long it waits before it
// asks all members beside that, and what the asking itself may take.
const (
	freshBound = time.Second
	headStart  = 300 * time.Millisecond
	localBound = 500 * time.Millisecond
	askBound   = 1600 * time.Millisecond
)

// viewer is a client that does with a member's own state if there is no leader.
type viewer struct {
	node  *quorumlock.Node
	by    time.Time // until when to wait for the leader
	ready chan struct{}
	why   error     // once ready is closed: why no leader answers, nil if one does
	age   freshness // of what a single member said, once read has asked one
}

// look opens a viewer, and gives the leader a head start.
func (inv *invocation) look(ctx context.Context) (*viewer, error) {
	node, err := inv.open(ctx)
	if err != nil {
		return nil, err
	}
	v := &viewer{node: node, by: time.Now().Add(min(freshBound, inv.timeout)), ready: make(chan struct{})}
	go func() {
		defer close(v.ready)
		bounded, cancel := context.WithDeadline(ctx, v.by)
		defer cancel()
		v.why = inv.await(bounded, node)
	}()
	select {
	case <-v.ready:
	case <-time.After(headStart):
	}
	return v, nil
}

// close ends the client. Nobody holds anything by it, so what it says at its end helps nobody.
func (v *viewer) close() {
	<-v.ready
	_ = v.node.Close()
}

// alone waits for the leader. It tells whether a single member has to do, or the error after which nobody can.
func (v *viewer) alone(ctx context.Context) (bool, error) {
	<-v.ready
	code, _ := verdict(v.why)
	switch {
	case v.why == nil:
		return false, nil
	case code == codeUnreachable, code == codeWrongCluster, code == codeUsage, ctx.Err() != nil:
		return false, v.why
	}
	return true, nil
}

// read asks by the leader, and if that does not answer in time by a member's own state.
func (v *viewer) read(ctx context.Context, ask func(context.Context, ...quorumlock.ReadOption) error) error {
	alone, err := v.alone(ctx)
	if err != nil {
		return err
	}
	if !alone {
		bounded, cancel := context.WithDeadline(ctx, v.by)
		err := ask(bounded)
		cancel()
		if err == nil || ctx.Err() != nil || !unanswered(err) {
			return err
		}
		v.why = err
	}
	bounded, cancel := context.WithTimeout(ctx, localBound)
	defer cancel()
	// A client that no leader has admitted yet may have nothing but its own empty state, which must not be taken for free locks.
	info, err := v.node.Inspect(bounded, "state", quorumlock.Local())
	if err == nil && info.Index == 0 {
		err = errors.New("no member's state to show")
	}
	if err == nil {
		v.age = freshnessOf(true, info.Age)
		err = ask(bounded, quorumlock.Local())
	}
	if err != nil {
		return &codedError{code: codeNoQuorum, advice: adviceNoQuorum, err: fmt.Errorf("%w (%v)", v.why, err)}
	}
	return nil
}

func unanswered(err error) bool {
	return errors.Is(err, quorumlock.ErrNoQuorum) || errors.Is(err, context.DeadlineExceeded)
}

// freshness is how the JSON of everything that is read says how far to believe it.
type freshness struct {
	Stale bool   `json:"stale"`
	AgeMS *int64 `json:"age_ms"` // since that member was last in touch with its group; null if that is not known, or if not stale
}

func freshnessOf(local bool, age time.Duration) freshness {
	f := freshness{Stale: local}
	if local && age != quorumlock.AgeUnknown {
		ms := age.Milliseconds()
		f.AgeMS = &ms
	}
	return f
}

func (f freshness) String() string {
	switch {
	case !f.Stale:
		return ""
	case f.AgeMS == nil:
		return "STALE: one member's own state, and it is not known when that was last in touch with its group"
	}
	return fmt.Sprintf("STALE: one member's own state; it was in touch with its group %s ago", short(time.Duration(*f.AgeMS)*time.Millisecond))
}
