//go:build !unix

// Command bench measures quorumlock beside its peers. It starts and kills processes as Unix systems do, and runs on these only.
package main

import (
	"fmt"
	"os"
	"runtime"
)

func main() {
	fmt.Fprintf(os.Stderr, "bench: it needs what Unix systems have, and %s does not\n", runtime.GOOS)
	os.Exit(2)
}
