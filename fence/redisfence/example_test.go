package redisfence_test

import (
	"context"
	"log"

	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/fence/redisfence"
	"github.com/quorumlock/quorumlock/fence/redisfence/goredis"
)

// A shard's state in Redis, written by whoever holds the lock. The writes of a holder that was paused past its lease are
// refused with a *fence.StaleTokenError, as long as Redis remembers.
func Example() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: "localhost:6379", ContextTimeoutEnabled: true})
	defer client.Close()
	var mutex *quorumlock.Mutex

	f, err := redisfence.New(goredis.New(client), redisfence.Config{})
	if err != nil {
		log.Print(err)
		return
	}
	state := redisfence.Key(redisfence.Tag("shard-7") + ":state")
	err = mutex.Do(ctx, func(ctx context.Context, _ quorumlock.Token) error {
		if err := f.Claim(ctx, "shard-7"); err != nil { // before reading
			return err
		}
		offset, err := client.HGet(ctx, string(state), "offset").Int64()
		if err != nil {
			return err
		}
		_, err = f.Do(ctx, "shard-7",
			redisfence.Cmd("HSET", state, "offset", offset+1),
			redisfence.Cmd("HINCRBY", state, "steps", 1))
		return err
	})
	if err != nil {
		log.Print(err)
	}
}
