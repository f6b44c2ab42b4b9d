//go:build unix

package main

import (
	"fmt"
	"runtime"
)

// machine is what figures depend on.
type machine struct {
	System     string `json:"system"`
	Processor  string `json:"processor,omitempty"`
	Processors int    `json:"processors"`
	Go         string `json:"go"`
	Load       string `json:"load,omitempty"` // average of the minute before the run
}

func thisMachine() machine {
	return machine{runtime.GOOS + "/" + runtime.GOARCH, processorName(), runtime.NumCPU(), runtime.Version(), otherLoad()}
}

func (m machine) String() string {
	text := fmt.Sprintf("%s, %d processors", m.System, m.Processors)
	if m.Processor != "" {
		text += " (" + m.Processor + ")"
	}
	text += ", " + m.Go
	if m.Load != "" {
		text += ", load average before the run " + m.Load
	}
	return text
}
