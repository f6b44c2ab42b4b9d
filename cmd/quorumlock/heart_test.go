//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/quorumlock/quorumlock/cmd/quorumlock/internal/guard"
)

// asHeart makes the test binary a command that is hard to end. Its value is the file in which each of its processes leaves a line per beat: id and time.
const asHeart = "QUORUMLOCK_TEST_HEART"

// The parts that a process of the heart plays, by its first argument.
const (
	heartRoot    = "root"   // starts the others
	heartLeaves  = "leaves" // starts the others, and ends
	heartChild   = "child"  // in the group
	heartMoved   = "moved"  // in a session of its own
	heartParent  = "parent" // starts an orphan, and ends
	heartOrphan  = "orphan" // in a session of its own, and nobody's child
	heartMembers = 4        // that beat, the root included
	beatPause    = 2 * time.Millisecond
)

// beat never returns: it ends only by what ends the heart.
func beat() {
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	part := os.Args[1]
	switch part {
	case heartRoot, heartLeaves:
		spawn(heartChild, false)
		spawn(heartMoved, true)
		spawn(heartParent, true)
	case heartParent:
		spawn(heartOrphan, true)
		os.Exit(0)
	}
	file, err := os.OpenFile(os.Getenv(asHeart), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		os.Exit(1)
	}
	if part == heartLeaves { // once the others beat
		for {
			if text, _ := os.ReadFile(file.Name()); len(beats(text)) >= heartMembers-1 {
				os.Exit(0)
			}
			time.Sleep(beatPause)
		}
	}
	for {
		if _, err := file.WriteString(strconv.Itoa(os.Getpid()) + " " + strconv.FormatInt(int64(guard.Now().Boot), 10) + "\n"); err != nil {
			os.Exit(1)
		}
		time.Sleep(beatPause)
	}
}

func spawn(part string, session bool) {
	cmd := exec.Command(os.Args[0], part)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: session}
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if part == heartParent {
		_ = cmd.Wait()
	}
}

// beats is the last beat of each process.
func beats(text []byte) map[int]time.Duration {
	last := make(map[int]time.Duration)
	for len(text) > 0 {
		var pid int
		var at int64
		end := 0
		for end < len(text) && text[end] != '\n' {
			end++
		}
		if end == len(text) { // a line that is being written
			break
		}
		if n, _ := fmt.Sscanf(string(text[:end]), "%d %d", &pid, &at); n == 2 {
			last[pid] = time.Duration(at)
		}
		text = text[end+1:]
	}
	return last
}
