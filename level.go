package quorumlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/internal/commit"
	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/internal/membership"
	"github.com/quorumlock/quorumlock/internal/router"
)

// The feature level of a cluster is what all its members understand. It stands in the replicated state, never falls, and is
// raised by the leader with an entry of the log. What a later level brings is not proposed before (mayPropose), and a binary that
// is below it is not admitted (refuseLevel), or stops when it meets it (fsm.Apply, fsm.Restore).

// level is the cluster's feature level as far as this node has applied the log, or as it was told if it is a client; zero before it
// was ever raised. It may lag behind, and is never ahead.
func (n *Node) level() uint32 {
	if r := n.roster.Load(); n.isClient() && r != nil {
		return r.level
	}
	return n.fsm.header().Level
}

// mayPropose tells whether the cluster understands a command. Most are of the first level, which needs no look at the state.
func (n *Node) mayPropose(c *locktable.Command) error {
	if n.binary.Allow(c, 0) == nil {
		return nil
	}
	return n.binary.Allow(c, n.level())
}

// mayAsk is mayPropose for whoever calls on this node. If the level is too low here, this node may only lag behind: it
// looks again when it has caught up with the leader, or, as a client, has asked it. A leader is not asked for the command itself, for it may be the one
// whose binary does not know it.
func (n *Node) mayAsk(ctx context.Context, op, name string, c *locktable.Command) error {
	if n.mayPropose(c) == nil {
		return nil
	}
	mark, err := n.router.Do(ctx, &locktable.Command{Op: locktable.OpBarrier}, router.Options{})
	if err != nil {
		return n.explain(failure(ctx, op, name, err))
	}
	if n.isClient() {
		n.followGroup(ctx)
	}
	for end := time.Now().Add(catchUpBound); !n.isClient() && n.fsm.header().Index < mark.Index && time.Now().Before(end) && ctx.Err() == nil; {
		pause(ctx, catchUpPace)
	}
	if err := n.mayPropose(c); err != nil {
		return &WaitError{Op: op, Name: name, Err: err, unsent: true}
	}
	return nil
}

// awaitLevel is mayAsk with patience: a cluster that was founded, or upgraded, a moment ago is raised within two rounds of its leader's probes.
func (n *Node) awaitLevel(ctx context.Context, op, name string, c *locktable.Command) error {
	for end := time.Now().Add(raiseBound); ; pause(ctx, pace) {
		err := n.mayAsk(ctx, op, name, c)
		if err == nil || !errors.Is(err, ErrLevel) || n.binary.Highest() < n.binary.Needs(c) || time.Now().After(end) || ctx.Err() != nil {
			return err
		}
	}
}

// askLater is ask for commands that came with a later level.
func (n *Node) askLater(ctx context.Context, op string, c *locktable.Command) (locktable.Result, error) {
	if err := n.awaitMember(ctx, op, ""); err != nil {
		return locktable.Result{}, err
	}
	if err := n.awaitLevel(ctx, op, "", c); err != nil {
		return locktable.Result{}, err
	}
	return n.ask(ctx, op, "", c)
}

const raiseBound = 2 * time.Second

const (
	catchUpBound = time.Second // a follower applies within a tenth of it
	catchUpPace  = 10 * time.Millisecond
)

// mayProposeHere is mayPropose on the leader, for commands of its own callers and of others. A leader that was elected a moment
// ago may not have applied the entry that raised the level.
func (n *Node) mayProposeHere(ctx context.Context, c *locktable.Command) error {
	if n.mayPropose(c) == nil {
		return nil
	}
	if err := n.group.barrier(ctx); err != nil {
		return router.ErrNotLeader
	}
	if err := n.mayPropose(c); err != nil {
		return &commit.Error{Outcome: commit.NotDone, Err: err}
	}
	return nil
}

// raiseLevel raises the feature level to what all members of the configuration have said they understand, if that is more. It
// keeps the place of a change of the membership meanwhile: nobody is admitted between the look at the configuration and the
// entry.
func (l *leadership) raiseLevel(ctx context.Context) error {
	if err := l.beginChange(ctx); err != nil {
		return err
	}
	defer l.endChange()
	common, known := membership.CommonLevel(l.view())
	if !known || common <= max(l.node.level(), 1) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, confTimeout)
	defer cancel()
	res, err := l.batch.Do(ctx, &locktable.Command{Op: locktable.OpLevel, Level: common})
	if err == nil && res.Code != locktable.CodeOK {
		err = fmt.Errorf("refused: code %d %s", res.Code, res.Detail)
	}
	if err != nil {
		return fmt.Errorf("raise the feature level to %d: %w", common, err)
	}
	l.node.log.Info("feature level raised", "level", common)
	return nil
}

// tooOld is a server that is refused because its binary is below the cluster's feature level.
type tooOld struct{ want, have uint32 }

func (e *tooOld) Error() string {
	return fmt.Sprintf("the cluster is at feature level %d, and this server's binary knows %d: "+
		"start it with the version that the other members have", e.want, e.have)
}

// refuseLevel is called in the place of a change of the membership. A binary that is below this one may be below the level, of
// which a leader elected a moment ago need not have heard.
func (l *leadership) refuseLevel(ctx context.Context, have uint32) error {
	if have < l.node.binary.Highest() {
		if err := l.node.group.barrier(ctx); err != nil {
			return err
		}
	}
	if want := l.node.level(); have < want {
		return &tooOld{want: want, have: have}
	}
	return nil
}

// belowLevel is what a node does that was refused for its binary: no waiting will help. A client was only refused a place. It needs none, and goes on as
// before until its own turn in the upgrade comes.
func (n *Node) belowLevel(err error) error {
	if errors.Is(err, ErrLevel) && !(n.isClient() && n.isMember()) {
		n.fail(err)
	}
	return err
}
