//go:build linux

package main

import "time"

// usage is what one process, or several, have used.
type usage struct {
	cpu      time.Duration
	resident int64
	written  int64 // bytes to disks
}

func (u usage) plus(v usage) usage {
	return usage{u.cpu + v.cpu, u.resident + v.resident, u.written + v.written}
}

func (u usage) minus(v usage) usage {
	return usage{u.cpu - v.cpu, u.resident - v.resident, u.written - v.written}
}
