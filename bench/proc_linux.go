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

// processorTime is what processes have used so far.
func processorTime(pids []int) (sum time.Duration, err error) {
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return 0, err
		}
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		for _, i := range []int{userTicks, systemTicks} {
			n, err := strconv.Atoi(fields[i])
			if err != nil {
				return 0, fmt.Errorf("processor time of %d: %w", pid, err)
			}
			sum += time.Duration(n) * tick
		}
	}
	return sum, nil
}

// resident is the memory of processes.
func resident(pids []int) (sum int64, err error) {
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
		if err != nil {
			return 0, err
		}
		pages, err := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("memory of %d: %w", pid, err)
		}
		sum += pages * int64(os.Getpagesize())
	}
	return sum, nil
}

// processorName is for the head of a report.
func processorName() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(line, "model name"); ok {
			return strings.TrimSpace(strings.TrimLeft(name, "\t :"))
		}
	}
	return ""
}

// otherLoad is the load average of the last minute.
func otherLoad() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	load, _, _ := strings.Cut(string(text), " ")
	return load
}
