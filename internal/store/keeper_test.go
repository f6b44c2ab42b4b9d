package store

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
)

// keeperEnv names the directory that a re-executed test binary keeps open until it is killed.
const keeperEnv = "QUORUMLOCK_STORE_KEEPER"

// runKeeper opens the store, forgets it as a careless program does, and prints the nonces of this start and the former ones, which it does not settle. What is in memory then depends on the garbage
// collector, what is locked must not.
func runKeeper(dir string) int {
	if err := openAndForget(dir); err != nil {
		fmt.Println("error", err)
		return 1
	}
	for range 3 {
		runtime.GC() // frees what can be freed, and then what its end has set free
	}
	fmt.Println("collected")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

func openAndForget(dir string) error {
	s, err := Open(context.Background(), Options{Dir: dir, Cluster: "c", Incarnation: true})
	if err != nil {
		return err
	}
	formers, why := s.Formers()
	fmt.Printf("%q %q %v\n", s.Incarnation(), strings.Join(formers, " "), why)
	return nil
}

// keeper is such a process.
type keeper struct {
	t              *testing.T
	cmd            *exec.Cmd
	nonce, formers string
}

// startKeeper returns once the directory is open and the garbage collected.
func startKeeper(t *testing.T, dir string) *keeper {
	t.Helper()
	k := &keeper{t: t, cmd: exec.Command(os.Args[0])}
	k.cmd.Env = append(os.Environ(), keeperEnv+"="+dir)
	in, err := k.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := k.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := k.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); k.kill() })
	lines := bufio.NewScanner(out)
	lines.Scan()
	nonces := lines.Text()
	if _, err := fmt.Sscanf(nonces, "%q %q", &k.nonce, &k.formers); err != nil || !lines.Scan() || !strings.HasPrefix(lines.Text(), "collected") {
		t.Fatalf("the other process: %q, %q, %v", nonces, lines.Text(), err)
	}
	return k
}

// kill is kill -9, and waits for the end.
func (k *keeper) kill() {
	if k.cmd.ProcessState != nil {
		return
	}
	if err := k.cmd.Process.Kill(); err != nil {
		k.t.Error(err)
	}
	_ = k.cmd.Wait() // killed
}
