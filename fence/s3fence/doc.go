// Package s3fence makes the objects of an S3-compatible store refuse the writes of a lock holder that has been succeeded. It
// uses nothing of the store but conditional writes (PutObject with If-None-Match and If-Match), and works with any client
// through the four methods of [Store]; awsstore is the one for the AWS SDK.
//
//	bucket, err := s3fence.Open(ctx, awsstore.New(client, "reports"), s3fence.Config{})
//	...
//	err = mutex.Do(ctx, func(ctx context.Context, _ quorumlock.Token) error {
//		return bucket.Update(ctx, "totals.json", func(o *s3fence.Edit) error {
//			sum, err := add(o.Payload(), day)
//			o.Set(sum)
//			return err
//		})
//	})
//
// # What is stored
//
// Each object begins with an envelope, one line of JSON that names the grant under which it was written; the payload follows.
// So a fenced object is read through [Bucket.Get], or by a program that skips the first line. docs/design/s3fence.md has the
// format.
//
// # What is guaranteed
//
// A write under a lower token than the object has accepted never takes effect, whatever clocks, pauses, lost answers and
// duplicated requests do. A write that returned nil took effect once, and so did no other than [UncertainError] says. The store
// must honour the conditions, and be consistent: a GET after a PUT sees it. [Bucket.Probe] asks the store for the proof,
// because some ignore the headers and accept everything.
//
// # What is not
//
// The fence is in the object, so whatever takes the object away takes the fence with it: DeleteObject, a lifecycle rule that
// expires objects, the restoration of an old version, the copy of an object over this one. Deny s3:DeleteObject on the prefix;
// [Bucket.Delete] needs only s3:PutObject, and leaves the fence behind. Writers that do not come through this package are not
// fenced. A replica of the bucket in another region is not the bucket: conditions hold within one.
package s3fence
