//go:build unix

package guard

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// Guard is a command under guard, as the holder of the lease sees it.
type Guard struct {
	process *exec.Cmd
	orders  *os.File
	reports *os.File
	done    chan struct{}
	result  Result // once done is closed
	kill    time.Duration

	mu       sync.Mutex
	until    Moment
	killed   bool // by Kill
	stopping bool
	command  leader // for where the guard died
}

// Start starts a guard and has it start the command, under a lease that ends at until. A command that cannot be started ends with a *StartError in its Result.
// On Linux this process adopts orphans from then on, and all its descendants are killed if the guard dies.
func Start(spec Spec, until Moment) (*Guard, error) {
	if until.Raw >= never || until.Boot >= never {
		return nil, errClocks
	}
	if err := adoptOrphans(); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if runtime.GOOS == "linux" {
		self = "/proc/self/exe" // also if the file was replaced by a newer one meanwhile
	}
	in, orders, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	reports, out, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, in.Close(), orders.Close())
	}
	g := &Guard{
		process: &exec.Cmd{
			Path: self, Args: []string{guardName}, Env: spec.Env, ExtraFiles: []*os.File{in, out},
			Stdin: spec.Files[0], Stdout: spec.Files[1], Stderr: spec.Files[2], SysProcAttr: guardAttr(),
		},
		orders: orders, reports: reports, done: make(chan struct{}), until: until, kill: spec.Kill,
	}
	err = g.process.Start()
	_, _ = in.Close(), out.Close()
	if err != nil {
		return nil, errors.Join(err, orders.Close(), reports.Close())
	}
	go g.listen(spec.Path)
	go g.overlook()
	// It waits for the guard to read, for the arguments may be longer than what a pipe takes.
	_ = json.NewEncoder(orders).Encode(order{Start: &startOrder{Path: spec.Path, Args: spec.Args, Term: spec.Term, Kill: spec.Kill}, Until: &until})
	return g, nil
}

// Done is closed when nothing of the command is left.
func (g *Guard) Done() <-chan struct{} { return g.done }

// Result is how it ended, once Done is closed.
func (g *Guard) Result() Result {
	<-g.done
	return g.result
}

// Extend prolongs the lease.
func (g *Guard) Extend(until Moment) {
	if until.Raw >= never || until.Boot >= never {
		return
	}
	g.mu.Lock()
	g.until = until
	g.mu.Unlock()
	g.order(order{Until: &until})
}

// Signal tells the command's process group.
func (g *Guard) Signal(s syscall.Signal) { g.order(order{Signal: int(s)}) }

// Kill kills the command at once. Done tells when it is over.
func (g *Guard) Kill() {
	g.mu.Lock()
	g.killed = true
	g.mu.Unlock()
	g.order(order{Kill: true})
}

// Stopping tells whether the command was told to end since the lease neared its end.
func (g *Guard) Stopping() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.stopping
}

var errClocks = errors.New("the clocks cannot be read")

// order does not wait: a guard that is stopped does not read, and in the end overlook sees to it. It is tried whatever the time, so that an order is not lost to a pause of this process, as it
// would be by a deadline for the write. Orders are shorter than what a pipe takes whole or not at all.
func (g *Guard) order(o order) {
	line, err := json.Marshal(o)
	if err != nil {
		return
	}
	conn, err := g.orders.SyscallConn()
	if err != nil {
		return // closed
	}
	_ = conn.Write(func(fd uintptr) (done bool) {
		_, _ = syscall.Write(int(fd), append(line, '\n'))
		return true
	})
}

// listen takes the guard's reports until the last one.
func (g *Guard) listen(path string) {
	defer close(g.done)
	g.result = g.hear(path)
	_ = g.orders.Close()
	_ = g.reports.Close()
	if err := g.process.Wait(); errors.Is(g.result.Err, ErrDied) {
		g.result.Err = errors.Join(g.result.Err, err)
		g.mu.Lock()
		command := g.command
		g.mu.Unlock()
		command.pid = inherited(command.pid)
		command.sweep()
	}
}

func (g *Guard) hear(path string) Result {
	lines := json.NewDecoder(g.reports)
	for {
		var r report
		if err := lines.Decode(&r); err != nil {
			return Result{Code: 128 + int(syscall.SIGKILL), Killed: true, Err: ErrDied}
		}
		switch {
		case r.Done != nil:
			return *r.Done
		case r.Failed != "":
			return Result{Err: &StartError{Path: path, NotFound: r.NotFound, Text: r.Failed}}
		}
		g.mu.Lock()
		g.stopping = g.stopping || r.Stopping
		if r.Started > 0 {
			g.command.pid = r.Started
		}
		g.mu.Unlock()
	}
}

// overlook kills a guard that did not do its work in time, since it was stopped itself, and with it the pipe on which listen waits: what it guarded is inherited
// then.
func (g *Guard) overlook() {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	late := 0
	for {
		select {
		case <-g.done:
			return
		case <-ticker.C:
		}
		g.mu.Lock()
		over := g.killed || g.until.left() <= g.kill
		g.mu.Unlock()
		if late++; !over {
			late = 0
		}
		if late > 2 {
			_ = g.process.Process.Kill()
		}
	}
}
