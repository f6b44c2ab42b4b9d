package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/guard"
	"github.com/quorumlock/quorumlock/fence"
)

// runOptions are the flags of run.
type runOptions struct {
	work
	embedded bool
	try      bool
	wait     time.Duration
	note     string
}

func newRun(inv *invocation) *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run NAME -- command [args]",
		Short: "Run a command while holding a lock",
		Long: `Run a command while holding a lock, and release it when the command has ended.

The command finds QUORUMLOCK_LOCK, QUORUMLOCK_TOKEN, QUORUMLOCK_CLUSTER (the cluster's id) and QUORUMLOCK_DEADLINE in its environment. It runs in a process group of its own, which gets the signals that
reach quorumlock run. When renewals fail it is warned by --warn-signal; --grace before the lease can end it gets SIGTERM, and a twentieth of --ttl before that end all of it is killed.
When the command has ended, whatever it left behind is killed too, and then the lock is released.

That holds as well if quorumlock run itself is stopped or killed: a small guard process sees to it. It needs a Unix system; on Linux it also finds processes that left the group.`,
		Example: `  quorumlock run jobs/nightly -- ./nightly.sh
  quorumlock run --embedded job-x -- sh -c 'echo $QUORUMLOCK_TOKEN'`,
		GroupID: groupUse,
		Args:    nameAndCommand,
		RunE: func(cmd *cobra.Command, args []string) error {
			inv.underLock = true
			if err := inv.run(cmd.Context(), o, args[0], args[1:]); err != nil {
				return &failure{err: err}
			}
			return nil
		},
	}
	flags := cmd.Flags()
	o.work.flags(flags)
	embeddedFlag(flags, &o.embedded)
	flags.BoolVar(&o.try, "try", false, "do not wait if the lock is taken: exit with 124")
	flags.DurationVar(&o.wait, "wait", 0, "wait for the lock at most this long: then exit with 124 (default: for ever)")
	flags.StringVar(&o.note, "note", "", "words that everybody sees with the lock (default: who runs it, and the command with its arguments)")
	cmd.MarkFlagsMutuallyExclusive("try", "wait")
	return cmd
}

func embeddedFlag(flags *pflag.FlagSet, p *bool) {
	flags.BoolVar(p, "embedded", false, "use a cluster of one in this process's memory, to try things out: it excludes nobody else")
}

// nameAndCommand wants the dashes, so that no flag of the command is taken for one of ours.
func nameAndCommand(cmd *cobra.Command, args []string) error {
	if cmd.ArgsLenAtDash() != 1 || len(args) < 2 {
		return fmt.Errorf("want %s", cmd.Use)
	}
	return nil
}

// errSignalled is the cause of a context that a signal ended.
var errSignalled = errors.New("interrupted")

// catch has the signals that concern a command delivered to it; before it starts they end the context.
func catch(ctx context.Context) (waiting context.Context, signals <-chan os.Signal, started, release func()) {
	caught := make(chan os.Signal, 16)
	if heeded := guard.Heeded(forwarded...); len(heeded) > 0 { // none would mean all
		signal.Notify(caught, heeded...)
	}
	waiting, cancel := context.WithCancelCause(ctx)
	stop := make(chan struct{})
	over := make(chan struct{})
	go func() {
		defer close(over)
		select {
		case <-caught:
			cancel(errSignalled)
		case <-stop:
		}
	}()
	started = func() {
		select {
		case <-stop:
		default:
			close(stop)
		}
		<-over
	}
	return waiting, caught, started, func() {
		signal.Stop(caught)
		started()
		cancel(nil)
	}
}

func (inv *invocation) run(ctx context.Context, o runOptions, name string, args []string) error {
	if o.wait < 0 {
		return usage("--wait must not be negative")
	}
	if err := o.prepare(args); err != nil {
		return err
	}
	waiting, signals, started, release := catch(ctx)
	defer release()
	bounded, cancel := o.patience(waiting)
	defer cancel()
	node, err := inv.nodeFor(bounded, o.embedded)
	if err != nil {
		return interruptedOr(waiting, notGranted(bounded, err))
	}
	defer node.Close()
	session, hold, err := inv.lock(bounded, node, name, o)
	started()
	if err == nil && waiting.Err() != nil {
		err = errors.Join(context.Cause(waiting), hold.Unlock())
	}
	if err != nil {
		return interruptedOr(waiting, err)
	}
	defer session.Close()
	res, err := o.under(hold, fence.Grant{Cluster: node.ClusterID(), Lock: name, Token: hold.Token()}, signals, inv.remark)
	return inv.ended(res, err, hold.Unlock(), hold.Forced())
}

// patience bounds all that comes before the grant by --wait.
func (o *runOptions) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	if o.wait > 0 {
		return context.WithTimeout(ctx, o.wait)
	}
	return context.WithCancel(ctx)
}

func interruptedOr(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errSignalled) {
		return &codedError{code: codeInterrupted, err: errSignalled}
	}
	return err
}

// nodeFor is a client, or a cluster of one.
func (inv *invocation) nodeFor(ctx context.Context, alone bool) (*quorumlock.Node, error) {
	ctx, cancel := inv.within(ctx)
	defer cancel()
	if alone {
		return embedded(ctx)
	}
	return inv.connect(ctx)
}

// lock waits for the lock, in a session of its own. One that is lost while it waits is replaced, however long that takes: the cluster was there, and may come back.
func (inv *invocation) lock(ctx context.Context, node *quorumlock.Node, name string, o runOptions) (*quorumlock.Session, *quorumlock.Hold, error) {
	note := o.note
	if note == "" {
		note = shorten(printable(actor()+": "+strings.Join(o.args, " ")), mostNote)
	}
	for open := inv.session; ; open = sessionOf {
		session, err := open(ctx, node, o.ttl)
		if err != nil {
			return nil, nil, notGranted(ctx, err)
		}
		mutex := quorumlock.NewMutex(session, name, quorumlock.Note(note))
		lock := mutex.Lock
		if o.try {
			lock = mutex.TryLock
		}
		hold, err := lock(ctx)
		if err == nil {
			return session, hold, nil
		}
		_ = session.Close()
		if !errors.Is(err, quorumlock.ErrLost) || ctx.Err() != nil {
			return nil, nil, notGranted(ctx, err)
		}
	}
}

func (inv *invocation) session(ctx context.Context, node *quorumlock.Node, ttl time.Duration) (*quorumlock.Session, error) {
	ctx, cancel := inv.within(ctx)
	defer cancel()
	return node.NewSession(ctx, ttl)
}

func sessionOf(ctx context.Context, node *quorumlock.Node, ttl time.Duration) (*quorumlock.Session, error) {
	return node.NewSession(ctx, ttl)
}

func notGranted(ctx context.Context, err error) error {
	if errors.Is(err, quorumlock.ErrLocked) || errors.Is(err, quorumlock.ErrQuarantine) || errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &codedError{code: codeRunNotGranted, err: err}
	}
	return err
}

const mostNote = 200 // bytes

// shorten cuts text between two characters.
func shorten(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && s[most]&0xC0 == 0x80 {
		most--
	}
	return s[:most] + "…"
}
