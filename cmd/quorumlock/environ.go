package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const envAnnotation = "environment variable"

// fromEnv lets an environment variable stand in for a flag that is not given.
func fromEnv(flags *pflag.FlagSet, name, variable string) {
	flag := flags.Lookup(name)
	flag.Usage += " [" + variable + "]"
	if flag.Annotations == nil {
		flag.Annotations = make(map[string][]string)
	}
	flag.Annotations[envAnnotation] = []string{variable}
}

// readEnv sets the flags that were left to the environment. An empty variable is none.
func readEnv(cmd *cobra.Command) error {
	var first error
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		names := flag.Annotations[envAnnotation]
		if flag.Changed || len(names) == 0 || os.Getenv(names[0]) == "" {
			return
		}
		if err := cmd.Flags().Set(flag.Name, os.Getenv(names[0])); err != nil && first == nil {
			first = fmt.Errorf("%s: %w", names[0], err)
		}
	})
	return first
}
