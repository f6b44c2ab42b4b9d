//go:build unix

package guard

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func init() {
	if isGuard() {
		runtime.LockOSThread() // the kernel ends the command with the thread that started it, and the main thread lives as long as the process
	}
}

func isGuard() bool { return len(os.Args) > 0 && os.Args[0] == guardName }

// Main makes this process a guard if it was started as one; it does not return then. Call it first in main.
func Main() {
	if isGuard() {
		os.Exit(serve())
	}
}

// tick bounds how late the end of a lease is noticed after the machine was suspended: timers stand still meanwhile.
const tick = 100 * time.Millisecond

// watcher is a guard at work.
type watcher struct {
	until      Moment
	term, kill time.Duration
	reports    *json.Encoder
	command    leader
	result     Result
	orphaned   bool // a child may wait to be reaped
	tidied     time.Time
}

const tidyPause = time.Second

// Heeded leaves out the signals that this process was started to ignore, as by nohup: catching one would have the command die of it.
func Heeded(signals ...os.Signal) []os.Signal {
	return slices.DeleteFunc(slices.Clone(signals), signal.Ignored)
}

func serve() int {
	syscall.CloseOnExec(ordersFD)
	syscall.CloseOnExec(reportsFD)
	reports := os.NewFile(reportsFD, "reports")
	if reports == nil || adoptOrphans() != nil {
		return 1
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, append(Heeded(syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM), syscall.SIGCHLD)...)
	orders := readOrders()
	w := &watcher{reports: json.NewEncoder(reports)}
	if !w.start(<-orders) {
		return 1
	}
	w.watch(orders, signals)
	w.result.Left = w.command.sweep()
	w.result.Code = exitCode(w.command.status)
	w.tell(report{Done: &w.result})
	return 0
}

// readOrders closes its channel when the holder is gone.
func readOrders() <-chan order {
	orders := make(chan order)
	go func() {
		defer close(orders)
		lines := json.NewDecoder(bufio.NewReader(os.NewFile(ordersFD, "orders")))
		for {
			var o order
			if lines.Decode(&o) != nil {
				return
			}
			orders <- o
		}
	}()
	return orders
}

func (w *watcher) tell(r report) { _ = w.reports.Encode(r) } // nobody may be left to hear it

// start starts the command if the lease leaves it time.
func (w *watcher) start(o order) bool {
	if o.Start == nil || o.Until == nil {
		return false
	}
	w.until, w.term, w.kill = *o.Until, o.Start.Term, o.Start.Kill
	if w.until.left() <= w.kill {
		w.tell(report{Failed: "the lease was over before it could begin"})
		return false
	}
	pid, err := syscall.ForkExec(o.Start.Path, o.Start.Args, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: commandAttr()})
	if err != nil {
		w.tell(report{Failed: err.Error(), NotFound: errors.Is(err, syscall.ENOENT)})
		return false
	}
	w.command.pid = pid
	w.tell(report{Started: pid})
	return true
}

// watch returns when the command has ended, or has to be killed.
func (w *watcher) watch(orders <-chan order, signals <-chan os.Signal) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for !w.command.exited() {
		left := w.until.left()
		if left <= w.kill {
			w.result.Killed = true
			return
		}
		if left <= w.term && !w.result.Stopped {
			w.result.Stopped = true
			w.signal(syscall.SIGTERM)
			w.tell(report{Stopping: true})
		}
		timer.Reset(w.pause(left))
		select {
		case o, open := <-orders:
			if !open || o.Kill {
				w.result.Killed = true
				return
			}
			w.obey(o)
		case s := <-signals:
			if n := s.(syscall.Signal); n != syscall.SIGCHLD {
				w.signal(n)
			} else {
				w.orphaned = true // perhaps
			}
		case <-timer.C:
			if w.orphaned && time.Since(w.tidied) >= tidyPause {
				w.orphaned, w.tidied = false, time.Now()
				w.command.tidy()
			}
		}
	}
}

func (w *watcher) pause(left time.Duration) time.Duration {
	next := left - w.kill
	if !w.result.Stopped {
		next = left - w.term
	}
	return min(max(next, 0), tick)
}

func (w *watcher) obey(o order) {
	if o.Until != nil && o.Until.left() > w.until.left() {
		w.until = *o.Until
	}
	if o.Signal > 0 {
		w.signal(syscall.Signal(o.Signal))
	}
}

// signal tells the command's group. What is stopped there hears it too.
func (w *watcher) signal(s syscall.Signal) {
	_ = unix.Kill(-w.command.pid, s)
	if s == syscall.SIGTERM {
		_ = unix.Kill(-w.command.pid, syscall.SIGCONT)
	}
}

func exitCode(status syscall.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}
