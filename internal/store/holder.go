package store

import (
	"os"
	"time"
)

// currentHolder describes this process, opening something now.
func currentHolder() Holder {
	host, _ := os.Hostname() // for people only; empty is fine
	return Holder{PID: os.Getpid(), Host: host, Started: time.Now().UTC().Truncate(time.Millisecond)}
}
