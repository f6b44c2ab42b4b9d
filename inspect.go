package quorumlock

import (
	"context"
	"iter"
	"time"

	"github.com/quorumlock/quorumlock/internal/locktable"
)

// LockInfo shows one lock: a mutex, the two sides of a read-write lock, a semaphore, or an election.
type LockInfo struct {
	Name    string
	Holders []Holder // the first of those that hold it, in the order of their claims: 64 from Inspect, 8 from Locks
	Holding int      // all that hold it
	Queue   []Waiter // the first of those that wait, as many, in the order in which they will be served
	Waiting int      // all that wait
	Limit   int      // of a semaphore that is in use, or whose limit was set by Resize and is remembered; else zero
	InUse   int      // permits held of it

	Index uint64 // log index of the state shown
	Rev   int64  // cluster-wide revision of the state shown: WatchFrom goes on from there without a gap

	// Local says that this node's own state is shown, which may be stale.
	Local bool
	// Age is how long ago this node was last in touch with its group, with Local; zero otherwise. For a follower that
	// is the last message of a leader (or the vote that it gave to one that wanted to be it), for a leader the last
	// time that a majority of the voters said they follow it. AgeUnknown means: not since the node was opened.
	//
	// It tells how far to believe in the node, not how old the state is: the state may lack what was on its way then,
	// about 0.1 s in a calm cluster and more if the node's disk is slow; Index tells how far it has got. And a node
	// that led until it lost its voters counts from when it noticed.
	Age time.Duration
}

// Waiter is a claim that waits for a lock.
type Waiter struct {
	Node     string
	ServerID string
	Session  SessionID
	Note     string
	Since    time.Time // leader's wall clock, for display
	Rev      int64     // revision at which it was made, which orders the queue
	Mode     Mode
	Permits  int // of a semaphore
}

// ReadOption changes where Inspect, Locks, Members and Snapshot get their answer from. Local gives the only one there is.
type ReadOption func(*reading)

type reading struct{ local bool }

// Local makes a read answer from this node's own state, without asking anybody: at once, without a quorum, and while
// the node's disk hangs. The answer may be stale, and is marked so. It must not decide who holds a lock: that is what
// tokens and fences are for. A client (see Role) keeps no state: it asks the members, one after the other, for theirs.
func Local() ReadOption { return func(r *reading) { r.local = true } }

func readingOf(opts []ReadOption) (r reading) {
	for _, opt := range opts {
		if opt != nil {
			opt(&r)
		}
	}
	return r
}

// Inspect shows who holds a lock and who waits for it. The answer is linearizable: it comes through the log, so it is
// no older than the call; with Local it is this node's own. An unknown name is a free lock. ctx bounds the round trip.
func (n *Node) Inspect(ctx context.Context, name string, opts ...ReadOption) (LockInfo, error) {
	const op = "inspect"
	if err := n.usable(ctx, op); err != nil {
		return LockInfo{}, err
	}
	if err := locktable.CheckName(name); err != nil {
		return LockInfo{}, fieldError(err, name)
	}
	if readingOf(opts).local {
		return n.inspectLocal(ctx, name)
	}
	res, err := n.ask(ctx, op, name, &locktable.Command{Op: locktable.OpInspect, Names: []string{name}})
	if err != nil {
		return LockInfo{}, err
	}
	if res.Code != locktable.CodeOK || res.Info == nil {
		return LockInfo{}, refusal(op, name, &res)
	}
	return lockInfo(res.Info), nil
}

func (n *Node) inspectLocal(ctx context.Context, name string) (LockInfo, error) {
	res, age, err := n.readState(ctx, "inspect", name, &locktable.Command{Op: locktable.OpInspect, Names: []string{name}})
	if err != nil {
		return LockInfo{}, err
	}
	return localInfo(res.Info, age), nil
}

// Locks shows all locks that somebody holds or waits for, and all semaphores whose limit was set by Resize, whose names
// begin with prefix, in the order of their names; "" is all of them. They come in pages of up to 100: each is
// linearizable, as of its Index, so a lock that changes hands meanwhile is shown as it was when its page was read, and
// one is neither shown twice nor left out if it is there all the time. With Local the pages are this node's own.
//
// The loop is the lifetime: leaving it asks for no further page. ctx bounds all of it. An error is the last thing that
// comes.
func (n *Node) Locks(ctx context.Context, prefix string, opts ...ReadOption) iter.Seq2[LockInfo, error] {
	pages := n.lockPage
	if readingOf(opts).local {
		pages = n.lockPageLocal
	}
	return func(yield func(LockInfo, error) bool) {
		for after, more := "", true; more; {
			var page []LockInfo
			var err error
			if page, more, err = pages(ctx, prefix, after); err != nil {
				yield(LockInfo{}, err)
				return
			}
			for _, info := range page {
				if after = info.Name; !yield(info, nil) {
					return
				}
			}
			more = more && len(page) > 0
		}
	}
}

const opList = "list locks"

func (n *Node) checkList(ctx context.Context, prefix string) error {
	if err := n.usable(ctx, opList); err != nil {
		return err
	}
	return checkPrefix(prefix)
}

// checkPrefix refuses what no name can begin with.
func checkPrefix(prefix string) error {
	if prefix == "" {
		return nil
	}
	if err := locktable.CheckName(prefix); err != nil {
		return fieldError(err, prefix)
	}
	return nil
}

func (n *Node) lockPage(ctx context.Context, prefix, after string) (page []LockInfo, more bool, err error) {
	if err := n.checkList(ctx, prefix); err != nil {
		return nil, false, err
	}
	res, err := n.ask(ctx, opList, prefix, listCommand(prefix, after))
	if err != nil {
		return nil, false, err
	}
	if res.Code != locktable.CodeOK {
		return nil, false, refusal(opList, prefix, &res)
	}
	for i := range res.Infos {
		page = append(page, lockInfo(&res.Infos[i]))
	}
	return page, res.More, nil
}

func listCommand(prefix, after string) *locktable.Command {
	cmd := &locktable.Command{Op: locktable.OpList, After: after, Count: locktable.MaxList}
	if prefix != "" {
		cmd.Names = []string{prefix}
	}
	return cmd
}

func (n *Node) lockPageLocal(ctx context.Context, prefix, after string) (page []LockInfo, more bool, err error) {
	if err := n.checkList(ctx, prefix); err != nil {
		return nil, false, err
	}
	res, age, err := n.readState(ctx, opList, prefix, listCommand(prefix, after))
	if err != nil {
		return nil, false, err
	}
	for i := range res.Infos {
		page = append(page, localInfo(&res.Infos[i], age))
	}
	return page, res.More, nil
}

// believable refuses local reads of a state that is known to be wrong. One that merely stands still, since the node has failed otherwise or is cut off, is shown with
// its age.
func (n *Node) believable() error {
	if n.verdict.Load() != nil {
		return n.failed()
	}
	return nil
}

// inspect and list hold up Apply for one name, or one page of them.
func (f *fsm) inspect(name string) locktable.Info {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.table.Inspect(name)
}

func (f *fsm) list(prefix, after string) (infos []locktable.Info, more bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.table.List(prefix, after, locktable.MaxList)
}

func localInfo(i *locktable.Info, age time.Duration) LockInfo {
	info := lockInfo(i)
	info.Local, info.Age = true, age
	return info
}

func lockInfo(i *locktable.Info) LockInfo {
	info := LockInfo{
		Name: i.Name, Holding: i.Holding, Waiting: i.Waiting, Limit: int(i.Limit), InUse: int(i.InUse), Index: i.Index, Rev: int64(i.Rev),
	}
	for k := range i.Holders {
		info.Holders = append(info.Holders, holderOf(&i.Holders[k]))
	}
	for _, w := range i.Waiters {
		info.Queue = append(info.Queue, Waiter{
			Node: w.NodeName, ServerID: w.Node, Session: SessionID(w.Session), Note: w.Note, Since: time.UnixMilli(w.Since),
			Rev: int64(w.Rev), Mode: Mode(w.Mode), Permits: int(w.Count),
		})
	}
	return info
}
