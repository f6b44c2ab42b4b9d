package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// invocation is one run of the program: where it reads and writes, and the flags that every command has.
type invocation struct {
	in        io.Reader
	out, errs io.Writer

	json      bool
	timeout   time.Duration
	underLock bool // a command runs under a lock: the exit codes are those of run
	connection
}

// commands are all of them: one file each, named after the command.
var commands = []func(*invocation) *cobra.Command{
	newStatus, newMembers, newLocks, newInspect, newSessions, newAudit, newWatch,
	newRelease, newSession, newTransfer, newDrain, newUndrain, newRemove, newSnapshot, newRecover,
	newRun, newElect, newAgent, newBench, newVersion,
}

const (
	groupLook    = "look"
	groupOperate = "operate"
	groupUse     = "use"
)

func newRoot(inv *invocation) *cobra.Command {
	root := &cobra.Command{
		Use:   "quorumlock",
		Short: "Look at a quorumlock cluster, operate it, and run commands under its locks",
		Long: `quorumlock talks to a cluster of services that have the quorumlock library inside.

    export QUORUMLOCK_JOIN=10.0.0.5:7000,10.0.0.6:7000 QUORUMLOCK_CLUSTER_NAME=orders
    quorumlock status
    quorumlock locks jobs/
    quorumlock run jobs/nightly -- ./nightly.sh

Nothing to talk to yet? A cluster of one, in memory:

    quorumlock run --embedded job-x -- sh -c 'echo $QUORUMLOCK_TOKEN'

Exit codes: 0 done, 1 another failure, 2 usage, 3 locked by another, 4 nobody holds it, 5 no quorum, 6 no member reachable,
7 wrong cluster, 8 another token holds it, 9 answered but degraded (stale, or no leader), 10 refused, 130 interrupted;
of snapshots 20 truncated, 21 altered, 22 foreign, 23 newer, 24 without its key.
run passes on the code of its command; its own failures are 123 (lock lost), 124 (not granted), 125 (anything else),
126 (command cannot be run) and 127 (command not found).`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := readEnv(cmd); err != nil {
				return err
			}
			if inv.timeout <= 0 {
				return usage("--timeout must be positive")
			}
			return nil
		},
	}
	root.AddGroup(
		&cobra.Group{ID: groupLook, Title: "Look:"},
		&cobra.Group{ID: groupOperate, Title: "Operate:"},
		&cobra.Group{ID: groupUse, Title: "Use:"},
	)
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	flags := root.PersistentFlags()
	flags.BoolVar(&inv.json, "json", false, "print JSON: one object, or one per line")
	flags.DurationVar(&inv.timeout, "timeout", 10*time.Second, "how long to wait for the cluster")
	inv.connection.flags(flags)
	for _, command := range commands {
		root.AddCommand(command(inv))
	}
	return root
}

// files has a shell complete the names of files, as arguments that are no locks or members.
func files(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}

// action makes the RunE of a command: its context ends with an interrupt, and what fails in it is a failure of the work, no longer of the command line.
func action(do func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		err := do(ctx, args)
		if err == nil {
			return nil
		}
		return &failure{err: err, interrupted: ctx.Err() != nil && cmd.Context().Err() == nil}
	}
}

// within is the deadline that --timeout gives to one command.
func (inv *invocation) within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, inv.timeout)
}
