// Package fence makes a fencing token bite: it is what a resource needs to refuse the writes of a lock holder that has been succeeded. It knows nothing of
// clusters and quorums, and importing it links nothing but the standard library, so a storage service that only checks tokens carries no consensus library.
//
// A [Grant] is what a writer shows: the lock's name, the token and the cluster that granted it. It travels in the [context.Context], as a trace does: the
// contexts of Mutex.Do, Hold.Context and Election.Run carry the grant they live under, httpfence and grpcfence take it over the wire, and the fences
// find it in the context they are called with. So between taking the lock and the write there is nothing to pass on, and nothing to forget: a context that
// carries no grant is refused ([ErrNoGrant]).
//
// A fence judges the grant and writes in one atomic step. Where any code can be that write, the fence is a [Checker], and httpfence.Handler and grpcfence.Check
// run whole requests in it:
//
//   - [Guard], in memory, for resources that live and die with this process;
//   - pgfence.Store, in a PostgreSQL transaction; pgfence.Tx and pgfence.Claim are the same in transactions of one's own.
//
// A store whose atomic step is one request of its own kind leaves no room for other code. Its fence has calls of its own, which judge and write:
//
//   - s3fence.Bucket, by conditional writes of an object store: Update, Put, Claim and others;
//   - redisfence.Fence, by a Redis script: Do with the commands to run, and Claim. It is best effort, since a failover of Redis may forget what it accepted.
//
// The conformance suite, fencetest, is one for all of them, and for whoever writes another.
//
// # The rule
//
// A resource is guarded by exactly one lock, the one of the first grant it accepts. From then on it accepts a grant of that lock whose token is at least the
// highest accepted before ([Judge]); equal tokens are writes of one holder, or of the readers of one phase. The rule asks no clock, so it holds whatever happened
// to clocks, leases and networks in between (Kleppmann, "How to do distributed locking", 2016; Gray and Cheriton, "Leases", 1989, for what it mends).
//
// A successor's token counts from its first write on, not from its grant on: whoever reads what the resource holds in order to change it has to claim
// the resource first ([Claim], the Claim of a fence that is no Checker, or read within the step that writes). docs/FENCING.md lists this and the other traps.
package fence
