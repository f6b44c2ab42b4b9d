//go:build !unix

package main

import (
	"os"
	"syscall"
)

var forwarded = []os.Signal{os.Interrupt}

// signalNamed does nothing: run does not work here.
func signalNamed(string) (syscall.Signal, error) { return 0, nil }
