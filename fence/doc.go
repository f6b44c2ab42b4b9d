// Package fence makes a fencing token bite: it is what a resource needs to refuse the writes of a lock holder that has been succeeded. It knows nothing of
// clusters and quorums, and importing it links nothing but the standard library, so a storage service that only checks tokens carries no consensus library.
//
// A [Grant] is what a writer shows: the lock's name, the token and the cluster that granted it. It travels in the [context.Context], as a trace does: the
// contexts of Mutex.Do, Hold.Context and Election.Run carry the grant they live under, httpfence and grpcfence take it over the wire, and the checkers
// find it in the context they are called with. So between taking the lock and the write there is nothing to pass on, and nothing to forget: a context that
// carries no grant is refused ([ErrNoGrant]).
//
// A [Checker] judges the grant and runs the write as one atomic step. The checkers:
//
//   - [Guard], in memory, for resources that live and die with this process;
//   - pgfence, in a PostgreSQL transaction;
//   - s3fence, by conditional writes of an object store;
//   - redisfence, in a Redis script: best effort, since a failover of Redis may forget what it accepted.
//
// # The rule
//
// A resource is guarded by exactly one lock, the one of the first grant it accepts. From then on it accepts a grant of that lock whose token is at least the
// highest accepted before ([Judge]); equal tokens are writes of one holder, or of the readers of one phase. The rule asks no clock, so it holds whatever happened
// to clocks, leases and networks in between (Kleppmann, "How to do distributed locking", 2016; Gray and Cheriton, "Leases", 1989, for what it mends).
//
// A successor's token counts from its first write on, not from its grant on: whoever reads what the resource holds in order to change it has to claim
// the resource first ([Claim], or read within [Checker.Do]). docs/FENCING.md lists this and the other traps.
package fence
