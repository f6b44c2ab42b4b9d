package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorumlock/quorumlock/watch"
)

func newWatch(inv *invocation) *cobra.Command {
	var from int64
	var count int
	cmd := &cobra.Command{
		Use:     "watch [prefix]",
		Short:   "Follow what happens to locks, until interrupted",
		GroupID: groupLook,
		Args:    cobra.MaximumNArgs(1),
		RunE: action(func(ctx context.Context, args []string) error {
			if from < 0 || count < 0 {
				return usage("--from and --count must not be negative")
			}
			prefix := ""
			if len(args) == 1 {
				prefix = args[0]
			}
			return inv.watch(ctx, prefix, from, count)
		}),
	}
	cmd.Flags().Int64Var(&from, "from", 0, "go on after this revision (inspect and each event show it); 0 is from now on")
	cmd.Flags().IntVar(&count, "count", 0, "end after this many events; 0 is never")
	return cmd
}

// eventView is the JSON of an event.
type eventView struct {
	Rev      string     `json:"rev"`
	Kind     string     `json:"kind"`
	Name     string     `json:"name,omitempty"`
	Token    string     `json:"token,omitempty"`
	Session  string     `json:"session"`
	Claim    uint64     `json:"claim,omitempty"`
	Node     string     `json:"node"`
	ServerID string     `json:"server_id"`
	Index    uint64     `json:"index"`
	Time     *time.Time `json:"time"`
	Note     string     `json:"note,omitempty"`
	Mode     string     `json:"mode,omitempty"`
	Permits  int        `json:"permits,omitempty"`
	Value    string     `json:"value,omitempty"`
}

func viewEvent(e watch.Event) eventView {
	v := eventView{
		Rev: strconv.FormatInt(e.Rev, 10), Kind: e.Kind.String(), Name: e.Name, Token: tokenText(e.Token), Session: strconv.FormatInt(e.Session, 10), Claim: e.Claim,
		Node: e.Node, ServerID: e.ServerID, Index: e.Index, Time: stamp(e.Time), Note: e.Note, Permits: e.Permits, Value: e.Value,
	}
	if e.Name != "" {
		v.Mode = e.Mode.String()
	}
	return v
}

func (inv *invocation) watch(ctx context.Context, prefix string, from int64, count int) error {
	waiting, cancel := inv.within(ctx)
	node, err := inv.connect(waiting)
	cancel()
	if err != nil {
		return err
	}
	defer node.Close()
	seen := 0
	for event, err := range node.WatchFrom(ctx, prefix, from) {
		if err != nil {
			return watchEnded(ctx, err)
		}
		if err := inv.printEvent(viewEvent(event), seen == 0); err != nil {
			return err
		}
		if seen++; seen == count {
			return nil
		}
	}
	return watchEnded(ctx, nil)
}

func watchEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return &codedError{code: codeInterrupted, err: errSignalled}
	}
	if errors.As(err, new(*watch.FellBehindError)) {
		return &codedError{code: codeFailed, err: err, advice: "read the state with locks --json or inspect, and go on from the revision that it shows, or leave --from out"}
	}
	return err
}

// printEvent prints columns of fixed width: a stream cannot wait for its widest cell.
func (inv *invocation) printEvent(e eventView, first bool) error {
	if inv.json {
		return inv.printJSON(e)
	}
	const columns = "%-12s  %-16s  %-15s  %-24s  %-17s  %-20s  %s\n"
	if first {
		if _, err := fmt.Fprintf(inv.out, columns, "TIME", "REV", "KIND", "NAME", "TOKEN", "NODE", "NOTE"); err != nil {
			return err
		}
	}
	at := "-"
	if e.Time != nil {
		at = e.Time.Local().Format("15:04:05.000")
	}
	_, err := fmt.Fprintf(inv.out, columns, at, e.Rev, e.Kind, orDash(e.Name), orDash(e.Token), orDash(e.who()), printable(e.Note))
	return err
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return printable(s)
}

// who names the node by its id where the member that was asked knows no other name for it (any more).
func (e eventView) who() string {
	if e.Node == "" {
		return shorten(e.ServerID, shortID)
	}
	return e.Node
}

const shortID = 8
