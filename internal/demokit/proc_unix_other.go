//go:build unix && !linux

package demokit

import "syscall"

// dieWithParent has nothing to set here: a child ends when its standard input is closed, which the kernel does for a parent
// that died. Only a child that was stopped at that moment stays, until somebody continues it.
func dieWithParent(*syscall.SysProcAttr) {}
