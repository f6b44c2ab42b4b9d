// Package conformance holds the tests of s3fence against servers that speak S3, in a module of its own, so that nobody who
// imports s3fence carries what they need.
package conformance
