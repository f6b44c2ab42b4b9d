//go:build unix && !linux

package main

import (
	"errors"
	"time"
)

var errNoProc = errors.New("only Linux tells what another process uses")

func processorTime([]int) (time.Duration, error) { return 0, errNoProc }
func resident([]int) (int64, error)              { return 0, errNoProc }
func processorName() string                      { return "" }
func otherLoad() string                          { return "" }
