package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	userTicks   = 11 // fields of /proc/PID/stat after the name
	systemTicks = 12
	tick        = 10 * time.Millisecond // the kernel's unit for user programs, USER_HZ
)

// usageOf is what a process has used so far. What the kernel does not tell is zero.
func usageOf(pid int) (u usage, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return u, err
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	for _, i := range []int{userTicks, systemTicks} {
		n, err := strconv.Atoi(fields[i])
		if err != nil {
			return u, fmt.Errorf("processor time of %d: %w", pid, err)
		}
		u.cpu += time.Duration(n) * tick
	}
	if text, err = os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid)); err != nil {
		return u, err
	}
	pages, err := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
	if err != nil {
		return u, fmt.Errorf("memory of %d: %w", pid, err)
	}
	u.resident = pages * int64(os.Getpagesize())
	u.written = writtenBy(pid)
	return u, nil
}

// writtenBy is not told to everybody.
func writtenBy(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if n, ok := strings.CutPrefix(line, "write_bytes: "); ok {
			bytes, _ := strconv.ParseInt(strings.TrimSpace(n), 10, 64)
			return bytes
		}
	}
	return 0
}

func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(text), " ")
	return ", load average before the run " + first
}
