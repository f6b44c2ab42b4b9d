// Command leader is a service of which one instance at a time, the leader, does a job: it appends to a ledger. The lock that
// elects the leader lives inside the service; nothing runs beside it.
//
// Without arguments it demonstrates what happens to such a service in bad hours, with three real processes on this machine:
//
//	go run ./examples/leader
//
// It elects a leader; stops that process for longer than its lease, so that another takes over, and lets the old one go on,
// whose late write the ledger refuses by its token; kills the second leader, so that a third takes over; and stops what is
// left. With -deploy it replaces all three, one after the other, while they lock, as a rolling deploy does; each new one comes
// first and keeps everything in memory, or with -dirs each is started again in its place. With -keep it only starts the service, tells where it answers, and runs until it is interrupted.
//
// With -addr it is one instance of the service, as it would be started on each of three machines that trust their network:
//
//	leader -serve 10.0.0.9:9000
//	leader -addr 10.0.0.1:7000 -join 10.0.0.1:7000,10.0.0.2:7000,10.0.0.3:7000 -dir /var/lib/leader \
//		-http 10.0.0.1:8000 -ledger http://10.0.0.9:9000 -allow-plaintext
//
// The files to copy from are service.go, the instance, and job.go, what the leader does. ledger.go and ledger_web.go are a resource that checks
// tokens. The rest directs the demonstration.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/quorumlock/quorumlock"
)

const (
	exitFailed = 1
	exitUsage  = 2
)

func main() { os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr)) }

// options is the command line.
type options struct {
	instanceOptions
	serve   string
	join    string
	keep    bool
	verbose bool

	deploying bool // replace all instances under load
	dirs      bool // with their data directories, each in its place
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("leader", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.IntVar(&o.expect, "n", 3, "`number` of instances, 3 or 5")
	f.DurationVar(&o.ttl, "ttl", quorumlock.MinSessionTTL,
		"session TTL: how long a leader that is not heard of keeps its place, 5s or more")
	f.BoolVar(&o.keep, "keep", false, "start the service, print the URLs of its instances, and run until interrupted; data stays")
	f.BoolVar(&o.deploying, "deploy", false,
		"replace all instances under load, as a rolling deploy does, new one first, without data directories")
	f.BoolVar(&o.dirs, "dirs", false, "with -deploy: restart each instance in its place, with its data directory")
	f.BoolVar(&o.verbose, "v", false, "show what the instances log")
	f.StringVar(&o.addr, "addr", "", "run ONE instance: `host:port` of its node")
	f.StringVar(&o.join, "join", "", "one instance: comma-separated `addresses` of all nodes")
	f.StringVar(&o.dir, "dir", "", "one instance: data `directory`")
	f.StringVar(&o.name, "name", "", "one instance: its name (default: the host name)")
	f.StringVar(&o.web, "http", loopback, "one instance: `host:port` of its HTTP service")
	f.StringVar(&o.ledger, "ledger", "", "one instance: `URL` of the ledger")
	f.BoolVar(&o.plaintext, "allow-plaintext", false, "one instance: serve addresses beyond loopback without TLS")
	f.BoolVar(&o.leaves, "leave", false, "one instance: leave the cluster at the end, for good; without -dir all is kept in memory")
	f.IntVar(&o.callers, "traffic", 0,
		"one instance: `number` of callers that lock and unlock beside the job; what became of them is printed at the end")
	f.BoolVar(&o.withParent, "with-parent", false, "one instance: stop when stdin is closed")
	f.StringVar(&o.serve, "serve", "", "run the ledger alone, at `host:port`")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if o.join != "" {
		o.instanceOptions.join = strings.Split(o.join, ",")
	}
	err := o.check(f)
	if err != nil {
		fmt.Fprintln(stderr, "leader:", err)
	}
	return o, err
}

func (o *options) check(f *flag.FlagSet) error {
	var problems []error
	wrong := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if f.NArg() > 0 {
		wrong("unexpected argument %q", f.Arg(0))
	}
	if o.expect != 3 && o.expect != 5 {
		wrong("-n %d: must be 3 or 5; fewer have no majority to lose a member from, an even number gains nothing", o.expect)
	}
	if o.ttl < quorumlock.MinSessionTTL || o.ttl > quorumlock.MaxSessionTTL {
		wrong("-ttl %v: must lie between %v and %v", o.ttl, quorumlock.MinSessionTTL, quorumlock.MaxSessionTTL)
	}
	if o.serve != "" && o.addr != "" {
		wrong("-serve and -addr exclude each other")
	}
	if o.addr != "" && (o.join == "" || o.dir == "" && !o.leaves || o.ledger == "") {
		wrong("-addr runs one instance, which needs -join, -dir and -ledger (with -leave not -dir)")
	}
	if o.callers < 0 {
		wrong("-traffic %d: must not be negative", o.callers)
	}
	if o.dirs && !o.deploying {
		wrong("-dirs is for -deploy")
	}
	if o.deploying && (o.keep || o.addr != "" || o.serve != "") {
		wrong("-deploy excludes -keep, -addr and -serve")
	}
	if o.addr == "" {
		f.Visit(func(g *flag.Flag) {
			switch g.Name {
			case "join", "dir", "name", "http", "ledger", "allow-plaintext", "with-parent", "leave", "traffic":
				wrong("-%s is for one instance, which -addr runs", g.Name)
			}
		})
	}
	return errors.Join(problems...)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return exitUsage
	case o.addr != "":
		err = runSingle(ctx, o, stdout, stderr)
	case o.serve != "":
		err = serveLedger(ctx, o.serve, stdout)
	default:
		err = runDemo(ctx, o, stdout, stderr)
	}
	if err == nil {
		return 0
	}
	fmt.Fprintln(stderr, "leader:", err)
	if errors.Is(err, syscall.EADDRINUSE) {
		return exitAddressInUse
	}
	return exitFailed
}

func runSingle(ctx context.Context, o options, stdout, stderr io.Writer) error {
	level := slog.LevelInfo
	if o.verbose {
		level = slog.LevelDebug
	}
	if o.withParent {
		var stop context.CancelFunc
		ctx, stop = untilClosed(ctx, os.Stdin)
		defer stop()
	}
	return runInstance(ctx, o.instanceOptions, slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level})), stdout)
}

// untilClosed gives a context that ends when r does: a parent that dies closes the pipe that its child reads from.
func untilClosed(ctx context.Context, r io.Reader) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, r)
		cancel()
	}()
	return ctx, cancel
}

// serveLedger runs the ledger alone, for instances on several machines. It lives in memory: a real one is a database.
func serveLedger(ctx context.Context, addr string, stdout io.Writer) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	url, end, err := startLedger(newLedger(), addr)
	if err != nil {
		return err
	}
	defer end()
	fmt.Fprintln(stdout, "ledger at", url)
	<-ctx.Done()
	return nil
}

// startLedger serves a ledger by HTTP until end is called.
func startLedger(l *ledger, addr string) (url string, end func(), err error) {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return "", nil, fmt.Errorf("serve ledger: %w", err)
	}
	server := &http.Server{Handler: l, ReadHeaderTimeout: 5 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(ln) // ends by end
	}()
	return "http://" + ln.Addr().String(), func() { _ = server.Close(); <-done }, nil
}
