// Package store is what one member keeps: raft's log, raft's vote and term, snapshots, and the member's own identity.
//
// A [Store] lives in a data directory, on a [Disk] (a directory's stand-in for simulations), or in memory. All three behave alike:
//
//   - Every entry and every stable value carries a CRC-32C. One that does not match is never handed out.
//   - The first failed write, failed fsync or checksum error fells a latch. From then on nothing is written and raft reads
//     nothing: a member that cannot trust its disk neither votes nor acknowledges until it is made anew as another member.
//   - A write that hangs is reported while it hangs, and again when it succeeds after all.
//   - Nothing that happens to the disk panics the process. hashicorp/raft panics when it cannot save its term or read an entry;
//     on these two paths the calling goroutine ends instead (see [Store.Guard]).
//
// The stores returned by [Store.Logs], [Store.Stable] and [Store.Snapshots] are for one raft instance. Close the Store after
// raft.Shutdown().Error() has returned. Calls into raft that read or write the stores on the caller's goroutine (raft.NewRaft,
// raft.BootstrapCluster) belong inside Guard.
package store
