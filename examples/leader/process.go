package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// exitAddressInUse is the exit code of an instance that found its address taken. The parent then starts over with other ones.
const exitAddressInUse = 3

// process is one instance as the parent sees it: a child that it can talk to by HTTP only, as to any other service.
type process struct {
	name    string
	url     string
	options processOptions
	cmd     *exec.Cmd
	stdin   io.Closer    // closed: the child is to stop
	output  *output      // its log
	said    bytes.Buffer // its standard output; read after exited is closed

	serving atomic.Bool   // it has been seen healthy
	frozen  bool          // it is stopped by the parent; used by the director only
	ending  atomic.Bool   // its end is expected
	exited  chan struct{} // closed when it is gone
	err     error         // how it ended; read after exited is closed
}

// processOptions is what a child is started with.
type processOptions struct {
	name, addr, web, dir, ledger string
	join                         []string
	expect                       int
	ttl                          time.Duration
	callers                      int       // that make traffic
	echo                         io.Writer // takes the child's output, line by line; nil keeps only the tail
}

// startProcess starts this very program again, as a single instance.
func startProcess(o processOptions) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	p := &process{name: o.name, url: "http://" + o.web, options: o, exited: make(chan struct{}), output: &output{name: o.name, echo: o.echo}}
	p.cmd = exec.Command(self, o.args()...)
	p.cmd.Stdout, p.cmd.Stderr = &p.said, p.output
	p.cmd.WaitDelay = time.Second // a grandchild that kept the pipe could hold Wait for ever
	ownGroup(p.cmd)
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start %s: %w", o.name, err)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", o.name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

// args is the command line of an instance. One without a directory leaves at its end.
func (o *processOptions) args() []string {
	args := []string{
		"-with-parent", "-name", o.name, "-addr", o.addr, "-join", strings.Join(o.join, ","), "-http", o.web, "-ledger", o.ledger,
		"-ttl", o.ttl.String(), "-n", strconv.Itoa(o.expect), "-traffic", strconv.Itoa(o.callers),
	}
	if o.dir == "" {
		return append(args, "-leave")
	}
	return append(args, "-dir", o.dir)
}

func (p *process) alive() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// wait returns how the child ended, or the cause of ctx.
func (p *process) wait(ctx context.Context) error {
	select {
	case <-p.exited:
		return p.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// destroy ends the child whatever state it is in, and waits until it is gone.
func (p *process) destroy() {
	p.ending.Store(true)
	_ = p.stdin.Close()
	if p.alive() {
		_ = p.kill()
	}
	<-p.exited
}

// askLimit bounds one question to a child; a stopped one does not answer.
const askLimit = 3 * time.Second

// maxAnswer is how many bytes of an answer are read.
const maxAnswer = 1 << 20

// get asks the child by HTTP. An answer that is not 200 is an error with the child's words; a nil v takes no body.
func (p *process) get(ctx context.Context, path string, v any) error {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+path, nil)
	if err != nil {
		return fmt.Errorf("ask %s: %w", p.name, err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("ask %s: %w", p.name, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("ask %s for %s: %w", p.name, path, err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s%s: %s: %s", p.name, path, resp.Status, bytes.TrimSpace(body))
	}
	if v == nil {
		return nil
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("%s%s: %w", p.name, path, err)
	}
	return nil
}

// output keeps the last lines of what a child prints, and passes whole lines on, prefixed by its name.
type output struct {
	name string
	echo io.Writer

	mu    sync.Mutex
	rest  []byte // of a line that is not complete
	lines []string
}

// keptLines is how much of a child's output is shown when the demonstration fails.
const keptLines = 100

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.rest = append(o.rest, b...)
	for {
		line, rest, found := bytes.Cut(o.rest, []byte{'\n'})
		if !found {
			return len(b), nil
		}
		o.take(string(line))
		o.rest = rest
	}
}

func (o *output) take(line string) {
	line = o.name + " | " + line
	if o.echo != nil {
		_, _ = fmt.Fprintln(o.echo, line)
	}
	o.lines = append(o.lines, line)
	o.lines = o.lines[max(0, len(o.lines)-keptLines):]
}

func (o *output) tail() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]string{}, o.lines...)
}
