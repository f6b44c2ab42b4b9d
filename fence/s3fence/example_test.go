package s3fence_test

import (
	"context"
	"log"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/fence/s3fence"
	"github.com/quorumlock/quorumlock/fence/s3fence/awsstore"
)

// A counter in a bucket, changed by whoever holds the lock. A holder that was paused past its lease changes nothing: Update
// returns a *fence.StaleTokenError.
func Example() {
	ctx := context.Background()
	var client *s3.Client // as the program configures it
	var mutex *quorumlock.Mutex

	bucket, err := s3fence.Open(ctx, awsstore.New(client, "reports"), s3fence.Config{Prefix: "fenced/"})
	if err != nil {
		log.Print(err) // a store that ignores conditions is found out here
		return
	}
	err = mutex.Do(ctx, func(ctx context.Context, _ quorumlock.Token) error {
		return bucket.Update(ctx, "counter", func(e *s3fence.Edit) error {
			n := 0
			if e.Exists() {
				var err error
				if n, err = strconv.Atoi(string(e.Payload())); err != nil {
					return err
				}
			}
			e.Set(strconv.AppendInt(nil, int64(n+1), 10))
			return nil
		})
	})
	if err != nil {
		log.Print(err)
	}
}
