// Package roundtrip takes clusters through the loss of everything: they work, their state is saved into a bucket, every member is killed and its disk emptied, and a new
// cluster is made of the newest snapshot, while those who held locks of the old one go on writing to PostgreSQL through pgfence. The bucket is on an S3 server in the test's process, the members are processes of their own.
//
// Six rounds run by default, side by side, since each waits for the end of a quarantine of 80 s. As many as wanted:
//
//	go test -v . -run TestRounds -args -rounds 30 -together 10
package roundtrip
