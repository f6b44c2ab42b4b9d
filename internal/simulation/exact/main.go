// Command exact runs a Go program built for wasip1 as a pure function of its arguments and one number: the same output, to the byte, each time.
//
//	go run . [-random N] [-cache DIR] [-env NAME=VALUE]... MODULE [argument]...
//
// It ends with the guest's exit code, or with 125 and a line on stderr if the guest could not be run.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
)

// exitHost tells a failure of this program from one of the guest: go test ends with 1 or 2.
const exitHost = 125

func main() {
	random := flag.Uint64("random", 1, "seed of the guest's random bytes")
	cache := flag.String("cache", "", "directory that keeps the translated module for later runs")
	var env envFlag
	flag.Var(&env, "env", "NAME=VALUE in the guest's environment; may be repeated")
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(exitHost)
	}
	// The guest's name is always the same: where the module lies must make no difference, not even to the length of a string.
	args := append([]string{"guest"}, flag.Args()[1:]...)
	g := guest{random: *random, env: env, args: args, stdout: os.Stdout, stderr: os.Stderr}
	code, err := g.run(context.Background(), flag.Arg(0), *cache)
	if err != nil {
		fmt.Fprintln(os.Stderr, "exact:", err)
		os.Exit(exitHost)
	}
	os.Exit(code)
}

// envFlag gathers NAME=VALUE.
type envFlag [][2]string

func (e *envFlag) String() string { return "" }

func (e *envFlag) Set(s string) error {
	name, value, ok := strings.Cut(s, "=")
	if !ok || name == "" {
		return fmt.Errorf("%q is not NAME=VALUE", s)
	}
	*e = append(*e, [2]string{name, value})
	return nil
}
