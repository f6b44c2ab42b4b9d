package guard

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// adoptOrphans makes this process the parent of every descendant whose own parent ends, whichever group or session it moved to. So who has no child left has no
// descendant left.
func adoptOrphans() error { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

func guardAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// commandAttr has the kernel kill the command's first process if the guard is killed.
func commandAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// leader is the command's first process. It is reaped last, so that its id, which is its group's too, cannot come to mean anybody else.
type leader struct {
	pid    int
	status syscall.WaitStatus
}

func (l *leader) exited() bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, l.pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	return err == nil && info.Signo != 0 || errors.Is(err, unix.ECHILD)
}

// tidy reaps orphans that ended while the command works: in its lifetime there may be any number of them.
func (l *leader) tidy() {
	for _, p := range descendants() {
		if p.zombie && p.pid != l.pid && p.parent == os.Getpid() {
			_, _ = unix.Wait4(p.pid, nil, unix.WNOHANG, nil)
		}
	}
}

// sweep kills all descendants, waits until none is left, and tells how many it found beside a command that had ended by itself. Those that cannot be killed
// are waited for.
func (l *leader) sweep() int {
	ended := l.exited()
	seen := make(map[int]bool)
	for _, p := range descendants() {
		seen[p.pid] = !p.zombie // before any is killed
	}
	for pause := time.Millisecond; ; pause = min(2*pause, maxPause) {
		if l.pid > 0 {
			_ = unix.Kill(-l.pid, syscall.SIGKILL)
		}
		alive := false
		for _, p := range descendants() {
			switch {
			case p.pid == l.pid && p.zombie:
			case p.zombie && p.parent == os.Getpid():
				_, _ = unix.Wait4(p.pid, nil, unix.WNOHANG, nil)
			case !p.zombie:
				alive, seen[p.pid] = true, true
				p.kill()
			}
		}
		if !alive && l.reapAll() {
			break
		}
		time.Sleep(pause)
	}
	left := 0
	for _, found := range seen {
		if found && ended {
			left++
		}
	}
	return left
}

const maxPause = 20 * time.Millisecond

// reapAll tells whether no child is left.
func (l *leader) reapAll() bool {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return err == syscall.ECHILD
		case pid == 0:
			return false
		case pid == l.pid:
			l.pid, l.status = 0, status
		}
	}
}

// process is one line of the table of processes.
type process struct {
	pid, parent int
	zombie      bool   // nothing of it runs any more
	start       string // in ticks since the boot: with the id it names a process for good
}

// descendants reads the whole table, since that is the only place that tells who is whose parent.
func descendants() []process {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	names, _ := dir.Readdirnames(-1)
	_ = dir.Close()
	children := make(map[int][]process)
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			if p, ok := readProcess(pid); ok {
				children[p.parent] = append(children[p.parent], p)
			}
		}
	}
	found := children[os.Getpid()]
	for i := 0; i < len(found); i++ {
		found = append(found, children[found[i].pid]...)
		delete(children, found[i].pid) // a table that was read while it changed may have a ring
	}
	return found
}

func readProcess(pid int) (process, bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return process{}, false
	}
	// The name, in parentheses, may hold anything; the rest begins with the third field.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 {
		return process{}, false
	}
	parent, err := strconv.Atoi(string(fields[1]))
	// The state is that of its first thread, which may have ended alone: others work on then.
	ended := (fields[0][0] == 'Z' || fields[0][0] == 'X') && (string(fields[17]) == "0" || string(fields[17]) == "1")
	return process{pid: pid, parent: parent, zombie: ended, start: string(fields[19])}, err == nil
}

// kill kills that very process, and not one that got its id meanwhile.
func (p process) kill() {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err != nil {
		if !errors.Is(err, unix.ESRCH) { // a kernel before 5.3
			_ = unix.Kill(p.pid, syscall.SIGKILL)
		}
		return
	}
	defer unix.Close(fd)
	if now, ok := readProcess(p.pid); ok && now.start == p.start {
		_ = unix.PidfdSendSignal(fd, syscall.SIGKILL, nil, 0)
	}
}

// inherited is the part of the command's first process that sweep needs once the guard is dead. The process is a child of whoever inherits, like all others, and
// its number may be anybody's as soon as it has been reaped there: the table of processes alone says who is left.
func inherited(int) int { return 0 }
