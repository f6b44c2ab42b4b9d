package s3fence

import (
	"context"
	"errors"
)

// Store is what s3fence asks of an object store: one bucket, seen through somebody's client. All methods may be called at the
// same time. They return an error that says why when ctx ends.
//
// A Store may send a request again when no answer came, as clients do; the error of a write that was sent more than once must
// match ErrRepeated, whatever else it matches, because the first copy may have made the second one fail.
type Store interface {
	// Get reads a whole object and its ETag, verbatim. The error matches ErrNotFound if there is no such object, and
	// ErrTooLarge if it has more than limit bytes. A body that was cut on the way, or may have been since nothing told its length,
	// is an error too. It must see every write that was answered before, and give the ETag of the very body it gives.
	Get(ctx context.Context, key string, limit int64) (body []byte, etag string, err error)
	// Create writes an object if there is none: PutObject with "If-None-Match: *". The error matches ErrConflict if there is
	// one (412), or might be (409 ConditionalRequestConflict).
	Create(ctx context.Context, key string, body []byte) error
	// Replace writes an object if the one that is there has the ETag given: PutObject with "If-Match". The error matches
	// ErrConflict if it has another (412), if it has just been written or deleted (409 ConditionalRequestConflict), or if there
	// is none (404 NoSuchKey; a missing bucket is not a conflict).
	Replace(ctx context.Context, key, etag string, body []byte) error
	// Delete removes an object. Only Probe uses it, to remove its scratch objects.
	Delete(ctx context.Context, key string) error
}

// The errors that a Store returns for s3fence to branch on.
var (
	// ErrNotFound: there is no such object. Get of a Bucket returns it too, also for a resource that was deleted.
	ErrNotFound = errors.New("no such object")
	// ErrConflict: the condition of a write did not hold.
	ErrConflict = errors.New("the condition of the write does not hold")
	// ErrRepeated: the client sent the write more than once, so the answer says nothing about the copies sent before.
	ErrRepeated = errors.New("the request had been sent before")
	// ErrTooLarge: the object is larger than the caller reads.
	ErrTooLarge = errors.New("the object is too large")
)
