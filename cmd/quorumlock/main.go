// Command quorumlock is for whoever is on call, and for scripts: it shows who holds what, frees a lock by force, runs a command under a lock, and holds a
// place in a cluster on hosts whose service is not written in Go. docs/CLI.md describes it.
package main

import (
	"context"
	"io"
	"os"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/guard"
)

func main() {
	guard.Main()
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is the whole program but for its process: arguments in, exit code out.
func run(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	inv := &invocation{in: in, out: out, errs: errs}
	root := newRoot(inv)
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errs)
	called, err := root.ExecuteContextC(ctx)
	if err == nil {
		return codeOK
	}
	return inv.fail(called, err)
}
