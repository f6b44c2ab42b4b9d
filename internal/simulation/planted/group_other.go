//go:build !unix

package main

import "os/exec"

// groupOfItsOwn leaves tests that the go command has started to their own time limit: there are no process groups here.
func groupOfItsOwn(cmd *exec.Cmd) { cmd.WaitDelay = waitDelay }
