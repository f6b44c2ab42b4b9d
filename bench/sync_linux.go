package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncData has the file's content on the disk, and of its properties only what finds it again.
func syncData(f *os.File) error { return unix.Fdatasync(int(f.Fd())) }
