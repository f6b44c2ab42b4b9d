// Package quorumlock is a distributed lock that lives inside your service: its instances find each other by gossip,
// form a raft group in their own processes, and lock. Nothing runs beside them.
//
// # The nouns
//
// A [Node] is one instance's member of a cluster. A [Session] is a promise to stay in touch: when the cluster has heard
// nothing of it for its TTL, everything it holds is lost together. A claim is one request for a lock; claims queue in
// the order in which they reach the cluster. A [Hold] is one grant of a lock. It has a [Token], and it can be lost.
//
// # A fenced critical section
//
//	err := quorumlock.NewMutex(node, "job-x").Do(ctx, func(ctx context.Context, t quorumlock.Token) error {
//		return store.Write(ctx, data, t) // the store refuses a token lower than one it has accepted
//	})
//
// # The locks
//
// [Mutex], [RWMutex], [Semaphore] and [MultiMutex] are names with options; what they grant is a [Hold]. An [Election]
// is a lock whose holder, a [Leadership], publishes a value. Claims on one name are served strictly in the order in
// which they came. Names belong to locks of all kinds alike: a Mutex, the write side of an RWMutex, an Election and
// each name of a MultiMutex exclude each other under one name, while a name in use as a lock cannot be a Semaphore at
// the same time.
//
// # What is guaranteed
//
// At every index of the replicated log a lock has at most one holder. Tokens rise with every grant, through crashes,
// leader changes, restarts and the loss of the whole cluster. A hold says that it is lost before the cluster grants the
// lock to anybody else, as long as the rates of two machines' clocks differ by less than a factor of 1.25; offsets and
// steps of wall clocks do no harm. After Lock returned an error, nothing of its claim stays behind. A request takes
// effect at most once, however often it is retried on the way, and exactly once if it is answered. What was
// acknowledged survives the loss of any minority of voters, and, with data directories, a power cut of all.
//
// # What is not
//
// A hold is a lease: a process that is stopped between asking whether it holds and writing may write late. Only the
// resource can refuse that, by the token (see [Guard], and [Mutex.Do], which hands it over). Without a majority of
// voters nothing is granted, and holds end with their leases. Members are trusted: the cluster survives crashes, not
// lies. A disk that acknowledges a write and loses it breaks its promise and ours.
//
// # Errors
//
// Branch on the sentinels ([ErrLocked], [ErrLost], [ErrNoQuorum], ...) with errors.Is; take facts from the typed errors
// with errors.As. An ended context stays visible: errors.Is(err, context.DeadlineExceeded) works on everything that
// waits.
//
// # Manners
//
// No panic leaves the package, it installs no signal handler (a service that wants one calls [Node.LeaveOnSignal]),
// keeps no global state, writes nothing to stderr, and after [Node.Close] no goroutine, file or port of it is left. Any
// number of nodes may live in one process.
package quorumlock
