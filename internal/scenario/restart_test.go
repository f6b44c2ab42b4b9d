package scenario_test

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// said is a logger's output that a test can search while nodes write to it.
type said struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(b)
}

func (s *said) contains(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Contains(s.buf.String(), text)
}

// restartable is a cluster that restarts in place, or not, and what it says.
func restartable(t *testing.T, in bool) (*quorumlocktest.Cluster, *said) {
	out := &said{}
	c := quorumlocktest.New(t, 3,
		quorumlocktest.Configure(func(_ int, cfg *quorumlock.Config) { cfg.RestartInPlace = in }),
		quorumlocktest.Logger(hclog.New(&hclog.LoggerOptions{Output: out, Level: hclog.Info})))
	return c, out
}

const (
	inPlaceBound = time.Second // from the start of the new process, whose way back into the group takes most of it
	notInPlace   = "no restart in place"
)

// A process that is killed and starts again in its directory finds its own locks free at once, whether it led or not; without the option, or where a condition does not hold, after the TTL.
func TestRestartInPlace(t *testing.T) {
	crash := func(c *quorumlocktest.Cluster, i int) { c.Crash(i) }
	for _, tc := range []struct {
		name   string
		option bool
		leader bool
		end    func(c *quorumlocktest.Cluster, i int)
		fast   bool
		says   string
	}{
		{"killed", true, false, crash, true, "restarted in place"},
		{"killed leader", true, true, crash, true, "restarted in place"},
		{"without the option", false, false, crash, false, ""},
		{"rebooted", true, false, func(c *quorumlocktest.Cluster, i int) { c.Reboot(i) }, false, "the machine was rebooted"},
		{"copied directory", true, false, func(c *quorumlocktest.Cluster, i int) { c.Crash(i); c.CopyDisk(i) }, false, "the directory was copied"},
		{"remade lock file", true, false, func(c *quorumlocktest.Cluster, i int) { c.Crash(i); c.Disk(i).RemakeLock() }, false, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c, out := restartable(t, tc.option)
				leader, followers := roles(c)
				i := followers[0]
				if tc.leader {
					i = leader
				}
				old := lockIn(t, c.Node(i), "k", grantBound)
				held := time.Now()
				time.Sleep(3 * time.Second) // renewed since
				tc.end(c, i)
				c.Start(i)
				began := time.Now()
				next := lockIn(t, c.Node(i), "k", deadBound)
				took := time.Since(began)
				if fast := took < 4*time.Second; fast != tc.fast {
					t.Errorf("granted %v after the start, %v after the former grant", took, time.Since(held))
				}
				if next.Token() <= old.Token() {
					t.Errorf("token %v after %v", next.Token(), old.Token())
				}
				time.Sleep(100 * time.Millisecond) // the node itself hears of it last
				if tc.says != "" && !out.contains(tc.says) {
					t.Errorf("nobody said %q", tc.says)
				}
				if !tc.fast && tc.says != "" && !out.contains(notInPlace) {
					t.Errorf("nobody said %q", notInPlace)
				}
				unlock(t, next)
				c.CheckState()
			})
		})
	}
}

// A node that comes back while the others still lead frees its locks within milliseconds of having joined them again.
func TestRestartInPlaceIsQuick(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, _ := restartable(t, true)
		_, followers := roles(c)
		i := followers[0]
		lockIn(t, c.Node(i), "k", grantBound)
		waiter := lockLater(t, c.Node(followers[1]), "k", deadBound)
		c.Crash(i)
		c.Start(i)
		began := time.Now()
		h := waiter.get()
		if took := time.Since(began); took > inPlaceBound {
			t.Errorf("the waiter was granted the lock %v after the start", took)
		} else {
			t.Logf("granted %v after the start", took)
		}
		unlock(t, h)
		c.CheckState()
	})
}

// Other instances' sessions, and what the new process has locked already, are not touched.
func TestRestartInPlaceEndsOnlyTheFormerProcess(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, _ := restartable(t, true)
		_, followers := roles(c)
		i, other := followers[0], followers[1]
		lockIn(t, c.Node(i), "k", grantBound)
		theirs := lockIn(t, c.Node(other), "other", grantBound)
		for range 3 {
			c.Crash(i)
			c.Start(i)
			mine := lockIn(t, c.Node(i), "mine", grantBound)
			lockIn(t, c.Node(i), "k", grantBound)
			time.Sleep(2 * time.Second)
			calm(t, theirs)
			calm(t, mine)
		}
		c.CheckState()
	})
}

// A process that dies before it has ended its predecessor's sessions leaves both to the next one: a loop of kill -9 loses no link of the chain.
func TestRestartInPlaceOverAChain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, out := restartable(t, true)
		_, followers := roles(c)
		i := followers[0]
		old := lockIn(t, c.Node(i), "k", grantBound)
		c.Crash(i)
		c.Isolate(i)
		for range 3 { // reach nobody, and die
			c.Start(i)
			time.Sleep(300 * time.Millisecond)
			c.Crash(i)
		}
		c.Heal()
		if out.contains("restarted in place") {
			t.Fatal("the fault did not bite: a start in between ended the sessions")
		}
		c.Start(i)
		began := time.Now()
		next := lockIn(t, c.Node(followers[1]), "k", deadBound)
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("granted %v after the start", took)
		} else {
			t.Logf("granted %v after the start", took)
		}
		if next.Token() <= old.Token() {
			t.Errorf("token %v after %v", next.Token(), old.Token())
		}
		time.Sleep(100 * time.Millisecond)
		if !out.contains("sessions=1 starts=4") {
			t.Error("the end of all four was not asked for")
		}
		// What is confirmed is not asked for again.
		c.Crash(i)
		c.Start(i)
		c.WaitReady()
		time.Sleep(time.Second)
		if !out.contains("starts=1") {
			t.Error("the start after that asked for others than the latest")
		}
		unlock(t, next)
		c.CheckState()
	})
}
