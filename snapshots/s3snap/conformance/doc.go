// Package conformance runs the suite of snapshot stores on s3snap with real S3 servers, and a cluster that is restored
// from one.
package conformance
