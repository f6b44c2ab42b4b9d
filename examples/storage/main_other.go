//go:build !unix

// Command storage shows a fenced storage service. It stops and continues processes by Unix signals, so it runs on Unix
// systems only.
package main

import (
	"fmt"
	"os"
	"runtime"
)

func main() {
	fmt.Fprintf(os.Stderr, "storage: it stops processes by Unix signals, which %s does not have\n", runtime.GOOS)
	os.Exit(2)
}
