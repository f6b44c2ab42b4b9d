package guard

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// TestProcessOfAnyName: the name of a program is within the line that its parent is read from.
func TestProcessOfAnyName(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(sleep)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), ") Z 1 (x")
	if err := os.WriteFile(path, program, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := &exec.Cmd{Path: path, Args: []string{"sleep", "60"}}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p, ok := readProcess(cmd.Process.Pid)
	if !ok || p.zombie || p.parent != os.Getpid() || p.start == "" || p.start == "0" {
		t.Errorf("%+v, %v", p, ok)
	}
	found := false
	for _, d := range descendants() {
		found = found || d.pid == cmd.Process.Pid
	}
	if !found {
		t.Error("not among the descendants")
	}
	other := p
	other.start += "0"
	other.kill() // another process that had this id
	if now, ok := readProcess(cmd.Process.Pid); !ok || now.zombie {
		t.Fatal("killed in the place of another")
	}
	p.kill()
	if err := cmd.Wait(); err == nil {
		t.Error("it ended by itself")
	}
}

// TestProcessWithoutItsFirstThread: it is shown as ended, and works on.
func TestProcessWithoutItsFirstThread(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), endFirstThread+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }()
	if _, err := out.Read(make([]byte, 1)); err != nil { // written by another thread, once the first one has ended
		t.Fatal(err)
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/stat")
	if err != nil || !bytes.Contains(stat, []byte(") Z ")) {
		t.Fatalf("the first thread has not ended: %s, %v", stat, err)
	}
	p, ok := readProcess(cmd.Process.Pid)
	if !ok || p.zombie {
		t.Fatalf("%+v, %v", p, ok)
	}
	p.kill()
	if err := cmd.Wait(); err == nil || cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("%v", err)
	}
}

const endFirstThread = "END_FIRST_THREAD"

func init() {
	if os.Getenv(endFirstThread) == "" {
		return
	}
	go func() {
		runtime.LockOSThread()
		for state := []byte(nil); !bytes.Contains(state, []byte(") Z ")); {
			state, _ = os.ReadFile("/proc/self/stat")
		}
		_, _ = os.Stdout.Write([]byte("x"))
		time.Sleep(time.Minute)
		os.Exit(0)
	}()
	for range 1000 { // the other one has a thread by then
		runtime.Gosched()
	}
	runtime.LockOSThread() // in init: the first thread
	_, _, _ = syscall.RawSyscall(syscall.SYS_EXIT, 0, 0, 0)
}

// TestOrdersThatCameLate: an order can lie in the pipe for any time, and orders overtake each other in nothing but their reading.
func TestOrdersThatCameLate(t *testing.T) {
	w := &watcher{until: Now().Add(time.Minute)}
	before := w.until
	earlier := Now().Add(time.Second)
	w.obey(order{Until: &earlier})
	if w.until != before {
		t.Error("the lease became shorter")
	}
	later := before.Add(time.Second)
	w.obey(order{Until: &later})
	if w.until != later {
		t.Error("the lease did not become longer")
	}
	over := Now().Add(-time.Hour)
	if left := over.left(); left > -time.Hour {
		t.Errorf("%v are left", left)
	}
	skewed := Moment{Raw: Now().Raw + time.Hour, Boot: Now().Boot + time.Second} // the machine slept
	if left := skewed.left(); left > time.Second {
		t.Errorf("%v are left, by the clock that ran less", left)
	}
}

// TestStartWithoutClocks: a lease that cannot be measured is none.
func TestStartWithoutClocks(t *testing.T) {
	if _, err := Start(Spec{}, Moment{Raw: never, Boot: never}); err == nil {
		t.Error("started")
	}
}
