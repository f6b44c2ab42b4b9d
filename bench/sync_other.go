//go:build unix && !linux

package main

import "os"

// syncData has the file on the disk.
func syncData(f *os.File) error { return f.Sync() }
