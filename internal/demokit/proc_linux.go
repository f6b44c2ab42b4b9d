package demokit

import "syscall"

// dieWithParent has the kernel kill the child when the thread that started it ends. It reaches a child that is stopped, which
// a closed standard input does not. All children are started by one thread that lives as long as the parent (see Launcher).
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
