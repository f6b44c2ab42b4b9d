// Package redisfence makes keys of a Redis server refuse the writes of a lock holder that has been succeeded: one Lua script
// judges the grant and runs the write's commands, so no other command comes in between. goredis has the client for go-redis.
//
//	f, err := redisfence.New(goredis.New(client), redisfence.Config{})
//	...
//	err = mutex.Do(ctx, func(ctx context.Context, _ quorumlock.Token) error {
//		_, err := f.Do(ctx, "shard-7", redisfence.Cmd("HSET", redisfence.Key("{shard-7}:state"), "offset", offset))
//		return err
//	})
//
// # Best effort
//
// A fence is as good as the memory of what it has accepted, and that of Redis may go back in time:
//
//   - Replication is asynchronous. A replica that is promoted may never have heard of the writes that its primary accepted
//     last, nor of their tokens: a holder succeeded long ago is then accepted again. Config.Replicas makes the window smaller.
//     It does not close it, because the replica that confirmed need not be the one that is promoted.
//   - A server that restarts has what its files have: without appendonly, or with appendfsync everysec, the last accepted
//     tokens may be gone.
//   - FLUSHALL, FLUSHDB, DEL of the fence's key and the restoration of a backup forget tokens. Eviction of keys without a TTL
//     (maxmemory-policy allkeys-*) does too, and is refused.
//
// Where one stale write in a failover is one too many, keep the resource where a commit is durable: pgfence.
//
// # What is guaranteed
//
// As long as the memory of the server that has the key does not go back: a write under a lower token than the resource has
// accepted never takes effect, and a write that is repeated for want of an answer takes effect once. A repetition is recognised if
// fewer than 16 other writes came in between. After more of them it is not run, and the outcome is unknown (UncertainError). Only a
// first copy that a network holds back until then could be run a second time.
//
// With a Client of one's own this holds if it does not repeat by itself.
//
// Redis does not roll back. When a command fails (by a wrong type, for one), those before it have taken effect and those behind
// it have not run: [CommandError].
//
// # Rights
//
// Where access is by ACL, a writer needs EVALSHA, EVAL, HMGET, EXISTS, HSET and PERSIST on keys with Config.Prefix, the commands of
// its writes on theirs, WAIT with Config.Replicas, and INFO for the check against eviction, which is left out without it. A right
// that is missing is a *ServerError before anything is written, or a *CommandError if it is that of a command.
package redisfence
