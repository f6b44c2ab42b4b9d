//go:build !unix

// Command rediscompare compares locks under faults. It stops, continues and kills processes by Unix signals, so it runs on
// Unix systems only.
package main

import (
	"fmt"
	"os"
	"runtime"
)

func main() {
	fmt.Fprintf(os.Stderr, "rediscompare: it freezes and kills processes by Unix signals, which %s does not have\n", runtime.GOOS)
	os.Exit(2)
}
