//go:build !unix

package main

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
)

// canPause says why the demonstration cannot run on this system.
var canPause = fmt.Errorf("the demonstration stops and continues processes by unix signals, which %s does not have: %w "+
	"(a single instance runs here too, see -addr)", runtime.GOOS, errors.ErrUnsupported)

func ownGroup(*exec.Cmd) {}

func (p *process) pause() error     { return canPause }
func (p *process) resume() error    { return canPause }
func (p *process) kill() error      { return p.cmd.Process.Kill() }
func (p *process) terminate() error { return canPause }
func (p *process) leftBehind() bool { return false }
