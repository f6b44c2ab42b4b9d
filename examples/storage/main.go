//go:build unix

// Command storage is a storage service that refuses the writes of a lock holder which has been succeeded, and two workers that
// contend for the lock "job-x" and write to it, each a process of its own:
//
//	go run ./examples/storage -embedded             documents in a file, nothing to install
//	go run ./examples/storage -private              on a PostgreSQL server of its own, where one is installed
//	go run ./examples/storage -dsn postgres://...   on yours, in a schema that is dropped in the end
//
// A worker is stopped past its lease in the middle of its job, the other one takes over, and the first goes on and writes: too
// late, so the service answers 412. Beside each fenced document stands a copy that everybody may write, and it loses
// updates. See README.md for a run.
//
// The files to read are job.go, what a user of quorumlock writes; service.go, the service; store_postgres.go and
// store_bolt.go, where its documents are kept; and round.go, what is done to the workers.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/quorumlock/quorumlock/internal/servers"
)

const (
	exitFailed = 1
	exitUsage  = 2 // a wrong command line, or a server that is not installed
)

func main() { os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// options is the command line.
type options struct {
	embedded, private bool
	dsn               string
	rounds            int
	child             bool
}

const mostRounds = 6 // 8 s each, so that all fit in runBound

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("storage", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.BoolVar(&o.embedded, "embedded", false, "keep the documents in a file of this program's own; nothing has to be installed")
	f.BoolVar(&o.private, "private", false, "start a private PostgreSQL server, which must be installed, and keep the documents there")
	f.StringVar(&o.dsn, "dsn", "", "keep the documents in the PostgreSQL database at this `URL`")
	f.IntVar(&o.rounds, "rounds", 4, fmt.Sprintf("`number` of times that a holder is stopped, 1 to %d", mostRounds))
	f.BoolVar(&o.child, childArg[1:], false, "be the service or a worker; used by the program itself")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	err := o.check(f.Args())
	if err != nil {
		fmt.Fprintln(stderr, "storage:", err)
	}
	return o, err
}

func (o options) check(rest []string) error {
	chosen := 0
	for _, c := range []bool{o.embedded, o.private, o.dsn != "", o.child} {
		if c {
			chosen++
		}
	}
	switch {
	case len(rest) > 0:
		return fmt.Errorf("unexpected argument %q", rest[0])
	case chosen != 1:
		return errors.New("say where the documents are kept, by one of -embedded, -private and -dsn URL")
	case o.rounds < 1 || o.rounds > mostRounds:
		return fmt.Errorf("-rounds %d: must lie between 1 and %d", o.rounds, mostRounds)
	}
	return nil
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return exitUsage
	case o.child:
		err = runChild(ctx, stdin, stdout, stderr)
	default:
		err = runDemo(ctx, o, stdout)
	}
	if err != nil {
		fmt.Fprintln(stderr, "storage:", err)
	}
	return exitCode(err)
}

func exitCode(err error) int {
	var missing *servers.MissingError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &missing):
		return exitUsage
	}
	return exitFailed
}
