//go:build !linux

// Command scale measures how quorumlock grows; it needs Linux, which tells what a process uses.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "scale: needs Linux")
	os.Exit(2)
}
