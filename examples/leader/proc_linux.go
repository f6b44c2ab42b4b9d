package main

import "syscall"

// dieWithParent has the kernel kill the child when the thread that started it ends. It reaches a child that is stopped,
// which the closed stdin does not. Whoever starts children keeps that thread until they are gone (see runDemo).
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
