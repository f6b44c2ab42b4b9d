//go:build unix

package main

import (
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// forwarded are the signals that reach the command.
var forwarded = []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2}

// signalNamed reads a signal's name, with or without SIG. "none" is 0.
func signalNamed(name string) (syscall.Signal, error) {
	upper := strings.ToUpper(name)
	if upper == "NONE" {
		return 0, nil
	}
	if s := unix.SignalNum("SIG" + strings.TrimPrefix(upper, "SIG")); s != 0 {
		return s, nil
	}
	return 0, fmt.Errorf("no signal is called %q", name)
}
