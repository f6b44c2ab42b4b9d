package quorumlock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/clock"
	"github.com/quorumlock/quorumlock/internal/locktable"
	"github.com/quorumlock/quorumlock/internal/store"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// RecoverOptions is what Recover has to be told beside the Config.
type RecoverOptions struct {
	// GiveUp is the id of the cluster to which the data directory belongs: by naming it the caller states that its
	// other members are gone for good, and accepts that what only they had is lost (see Recover). A DryRun tells the
	// id, and so do Node.ClusterID and the errors of a node without a quorum. Needed unless DryRun is set.
	GiveUp string
	// TokenFloor is a token that every new one has to exceed: the highest that a fenced resource has accepted, or more.
	// Needed only if the clock of this machine is behind the time that the cluster's own tokens show. Default 0: the
	// clock, and what the directory knows, decide.
	TokenFloor Token
	// DryRun checks everything and reports, and changes nothing that the directory holds.
	DryRun bool
}

// Recovery is what Recover did, or in a dry run would do.
type Recovery struct {
	DryRun bool

	OldClusterID string // given up
	ClusterID    string // of the new cluster; "" in a dry run
	OldServerID  string
	ServerID     string // of its one member; "" in a dry run
	// Index and Term are those of the last log entry in the directory. Of several survivors the one with the highest
	// Term, and then the highest Index, has lost least.
	Index, Term uint64
	// LastEntry is the wall clock of the leader that wrote the last entry; zero if that is not known. What the cluster
	// acknowledged after it is lost. Sessions renew through the log, so with any of them open it is within seconds of
	// the last contact.
	LastEntry time.Time
	Voter     bool     // the directory's member had a vote
	Others    []string // server ids of the members that are given up, as far as this one knew

	// Sessions, Holds and Waiting are dropped. Their owners are not told; the quarantine covers what they may still
	// believe.
	Sessions, Holds, Waiting int
	// TokensAbove is what every new token exceeds.
	TokensAbove Token
	// Quarantine is for how long nobody is granted a lock, from the start of the recovered node on: 1.25 times the
	// longest session TTL of the cluster and 5 s, and the longest Delay of a lock that was held.
	Quarantine time.Duration
}

// String is a report for people, of several lines.
func (r *Recovery) String() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	if r.DryRun {
		line("dry run: nothing was changed")
		line("cluster %s would be given up", r.OldClusterID)
	} else {
		line("cluster %s is given up; the new one is %s", r.OldClusterID, r.ClusterID)
		line("server %s is its only member, in the place of %s", r.ServerID, r.OldServerID)
	}
	role := "without a vote"
	if r.Voter {
		role = "a voter"
	}
	line("the directory is that of %s, %s; it reaches log index %d of term %d, %s", r.OldServerID, role, r.Index, r.Term, r.written())
	line("lost: whatever the cluster acknowledged after that")
	if len(r.Others) > 0 {
		line("given up with the cluster: %d other members (%s); they can come back with empty data directories only",
			len(r.Others), strings.Join(r.Others, ", "))
	}
	line("dropped: %d sessions, %d holds, %d waiting claims", r.Sessions, r.Holds, r.Waiting)
	line("every new token is above %d", r.TokensAbove)
	fmt.Fprintf(&b, "locks are granted %v after the node has started, and not before", r.Quarantine)
	return b.String()
}

func (r *Recovery) written() string {
	if r.LastEntry.IsZero() {
		return "written at an unknown time"
	}
	return "written at " + r.LastEntry.UTC().Format(time.RFC3339)
}

// Recover makes a new cluster out of one survivor's data directory, when a majority of the voters is gone for good and
// the cluster can therefore not go on. It is the last resort, never done by itself, and called while no node runs in
// the directory (a running one is found: a *FieldError). cfg is the Config with which the node will be opened.
//
// What is lost: every result that the cluster had acknowledged and that this directory has not got, which may be
// anything that happened after Recovery.LastEntry. All sessions end, and with them all holds and queues, so nobody is
// taken for a holder who may not be one; the limits of semaphores that Resize set stay, and so do the records of forced
// releases. The node comes back as the only member of a cluster with a new id, under a new server id. Tokens rise on:
// they exceed every one in the directory and the wall clock in microseconds, which no cluster's tokens overtake. After
// the node's start nobody is granted a lock for Recovery.Quarantine, until all former holders have stopped believing;
// Lock waits meanwhile, and TryLock fails with ErrQuarantine.
//
// The caller must know that the others are gone, or have stopped them: a majority that is alive, or comes back
// together, goes on granting locks as the old cluster, and two clusters then serve the same names. One that comes back
// to the new cluster with its old directory is refused (ErrClusterChanged says what to do); with an empty one it joins.
// A Config.ClusterID that pins the old cluster has to name the new one, everywhere.
// Recover the survivor that has got furthest: compare dry runs by Recovery.Term and Index.
//
// Everything is verified before anything is written: a directory that is corrupt, condemned (ErrDiverged), of another
// cluster, or of a newer version (ErrLevel) is refused, and so is a machine whose clock is behind the cluster's own time,
// unless TokenFloor says how high tokens have got. A crash at any point leaves the former directory or the new one.
// After an error that is not a *FieldError a dry run tells which. ctx bounds the reading.
func Recover(ctx context.Context, cfg Config, opt RecoverOptions) (*Recovery, error) {
	cfg = cfg.withDefaults()
	if err := errors.Join(cfg.validate(), cfg.validateRecovery(opt)); err != nil {
		return nil, fmt.Errorf("recover: %w", err)
	}
	s, err := openSurvivor(ctx, &cfg, opt)
	if err != nil {
		return nil, fmt.Errorf("recover: %w", err)
	}
	r, err := recoverStore(ctx, s, &cfg, opt)
	if err := errors.Join(err, s.Close()); err != nil {
		return nil, fmt.Errorf("recover: %w", err)
	}
	return r, nil
}

// maxTokenFloor is the middle of what fences accept (up to fence.MaxToken): as many tokens are left for the grants to come. The
// wall clock reaches it in the year 2112.
const maxTokenFloor = 1 << 52

func (c *Config) validateRecovery(opt RecoverOptions) error {
	errs := c.offlineProblems("the new cluster would have no other member")
	if opt.GiveUp == "" && !opt.DryRun {
		errs = append(errs, &FieldError{
			Field: "RecoverOptions.GiveUp", Problem: "must name the cluster that is given up; a dry run tells its id",
		})
	}
	errs = append(errs, checkFloor("RecoverOptions.TokenFloor", opt.TokenFloor))
	return errors.Join(errs...)
}

// offlineProblems is what the Config of a node that a cluster is made of must not be.
func (c *Config) offlineProblems(client string) []error {
	var errs []error
	if c.Dir == "" && c.sim.Disk == nil {
		errs = append(errs, &FieldError{Field: "Config.Dir", Problem: "is needed: what is kept in memory is gone with its process"})
	}
	if c.Role == RoleClient {
		errs = append(errs, &FieldError{Field: "Config.Role", Value: c.Role, Problem: "a client keeps no state, and " + client})
	}
	return errs
}

func checkFloor(field string, floor Token) error {
	if floor < 0 || floor > maxTokenFloor {
		return &FieldError{Field: field, Value: floor, Problem: fmt.Sprintf("must lie between 0 and %d", maxTokenFloor)}
	}
	return nil
}

func openSurvivor(ctx context.Context, cfg *Config, opt RecoverOptions) (*store.Store, error) {
	s, err := store.Open(ctx, store.Options{
		Dir: cfg.Dir, Disk: cfg.sim.Disk, Cluster: cfg.Cluster, Existing: true, Logger: cfg.Logger.Named("store"),
		Admit: func(id store.Identity) error { return errors.Join(cfg.pinned(id), opt.checkGivenUp(id.ClusterID)) },
		VerifySnapshot: func(r io.Reader) error {
			return cfg.sim.Binary.VerifySnapshot(r, func() bool { return ctx.Err() == nil })
		},
	})
	if errors.Is(err, ErrInvalid) {
		return nil, err // of Admit
	}
	if err != nil {
		return nil, directoryError(err)
	}
	return s, nil
}

// checkGivenUp compares with what is known of the directory so far.
func (o RecoverOptions) checkGivenUp(found string) error {
	if o.GiveUp == "" || found == "" || o.GiveUp == found {
		return nil
	}
	return &FieldError{Field: "RecoverOptions.GiveUp", Value: o.GiveUp, Problem: "the data directory belongs to cluster " + found}
}

func recoverStore(ctx context.Context, s *store.Store, cfg *Config, opt RecoverOptions) (*Recovery, error) {
	was, err := readSurvivor(ctx, s, cfg.sim.Binary)
	if err != nil {
		return nil, err
	}
	old := was.state.Header()
	if err := checkSurvivor(s, old, opt); err != nil {
		return nil, err
	}
	clk := cfg.sim.Clock
	if clk == nil {
		clk = clock.System()
	}
	counter, err := raisedCounter("RecoverOptions.TokenFloor", old.Counter, was.lastEntry, clk.Now().Wall, opt.TokenFloor)
	if err != nil {
		return nil, err
	}
	next, err := was.state.Refounded(locktable.Refounding{ClusterID: newID(), Counter: counter, Index: was.index})
	if err != nil {
		return nil, err
	}
	r := reportOf(s, was, next)
	if opt.DryRun {
		r.DryRun, r.ClusterID = true, ""
		return r, wire.WriteSnapshot(io.Discard, next.Snapshot())
	}
	r.ServerID, err = s.Succeed(store.Succession{
		Identity: store.Identity{ClusterID: r.ClusterID}, Index: was.index, Term: was.term,
		State: func(w io.Writer) error { return wire.WriteSnapshot(w, next.Snapshot()) },
	})
	if err != nil {
		return nil, err
	}
	cfg.Logger.Warn("a cluster was given up, and a new one made of one survivor's data", "given-up", r.OldClusterID,
		"cluster", r.ClusterID, "server", r.ServerID, "index", r.Index, "sessions-dropped", r.Sessions, "holds-dropped", r.Holds, "no-lock-granted-for", r.Quarantine)
	return r, nil
}

// checkSurvivor compares the cluster that the state names with the other two places in which it may stand.
func checkSurvivor(s *store.Store, h locktable.Header, opt RecoverOptions) error {
	if h.ClusterID == "" {
		return &FieldError{
			Field: "Config.Dir", Problem: "its cluster was never founded, so no lock has been granted: empty it, and start the node anew",
		}
	}
	if id := s.Identity().ClusterID; id != "" && id != h.ClusterID {
		return &FieldError{
			Field: "Config.Dir", Problem: fmt.Sprintf("it belongs to cluster %s and has the state of cluster %s", id, h.ClusterID),
		}
	}
	return opt.checkGivenUp(h.ClusterID)
}

const microseconds = "2006-01-02T15:04:05.000000Z"

// raisedCounter is what all new tokens exceed. Tokens start at the wall clock in microseconds and rise by less than one in each,
// so a clock that is right is ahead of all that the lost members may have granted (A5 in DESIGN.md); one that is behind what this
// member knows is not right, and only somebody who knows the highest token can do without it. The error names field.
func raisedCounter(field string, known locktable.Rev, lastEntry, now time.Time, floor Token) (locktable.Rev, error) {
	own := time.UnixMicro(int64(known))
	if lastEntry.After(own) {
		own = lastEntry
	}
	if floor == 0 && now.Before(own) {
		return 0, &FieldError{Field: field, Problem: fmt.Sprintf(
			"is needed: this machine's clock (%s) is behind the cluster's own time (%s), so new tokens might not exceed those that the "+
				"lost members granted; set the clock, or name the highest token that a fenced resource has seen",
			now.UTC().Format(microseconds), own.UTC().Format(microseconds))}
	}
	return max(locktable.Rev(now.UnixMicro()), locktable.Rev(floor)), nil
}

func reportOf(s *store.Store, was *survivor, next *locktable.Table) *Recovery {
	old, fresh := was.state.Header(), next.Header()
	r := &Recovery{
		OldClusterID: old.ClusterID, ClusterID: fresh.ClusterID, OldServerID: s.ServerID(),
		Index: was.index, Term: was.term, LastEntry: was.lastEntry,
		Sessions: old.Sessions, TokensAbove: Token(fresh.Counter), Quarantine: fresh.Quarantine.Wait,
	}
	for _, m := range was.servers {
		if m.ID == r.OldServerID {
			r.Voter = m.Voter
		} else {
			r.Others = append(r.Others, m.ID)
		}
	}
	r.Holds, r.Waiting = countClaims(was.state)
	return r
}
