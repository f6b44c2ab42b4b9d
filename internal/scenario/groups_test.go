package scenario_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorumlocktest"
)

// group is where a name lies if there are that many groups, as docs/SCALING.md has it.
func group(name string, of int) int {
	sum := sha256.Sum256([]byte(name))
	return int(binary.BigEndian.Uint64(sum[:]) % uint64(of))
}

// service is three instances with a node in each of several groups.
func service(t *testing.T, groups int) []*quorumlocktest.Cluster {
	var list []*quorumlocktest.Cluster
	for i := range groups {
		list = append(list, quorumlocktest.New(t, 3, quorumlocktest.Seed(uint64(i+1)), quorumlocktest.Configure(func(_ int, cfg *quorumlock.Config) {
			cfg.Cluster = fmt.Sprint("orders-", i)
		})))
	}
	return list
}

// placed is a mutex of one instance in the group of the name.
func placed(groups []*quorumlocktest.Cluster, instance int, name string) *quorumlock.Mutex {
	return quorumlock.NewMutex(groups[group(name, len(groups))].Node(instance), name)
}

// Which group a name lies in is for ever: a change of the hash would let two holders in.
func TestTheGroupOfANameNeverChanges(t *testing.T) {
	for name, want := range map[string][3]int{
		"":           {0, 1, 4},
		"job-x":      {1, 2, 3},
		"tenant-1":   {0, 2, 14},
		"tenant-2":   {0, 2, 12},
		"account/42": {1, 2, 7},
	} {
		got := [3]int{group(name, 2), group(name, 3), group(name, 16)}
		if got != want {
			t.Errorf("%q: %v, want %v", name, got, want)
		}
	}
}

// Names split over groups: each is exclusive over all instances, with rising tokens, and a group without a quorum stops its own names only.
func TestNamesSplitOverGroups(t *testing.T) {
	bubble(t, func(t *testing.T) {
		groups := service(t, 3)
		const names = 12
		var all sync.WaitGroup
		var mu sync.Mutex
		holder, last := make(map[string]int), make(map[string]quorumlock.Token)
		used := make(map[int]int)
		for i := range names {
			name := fmt.Sprint("tenant-", i)
			used[group(name, len(groups))]++
			for instance := range 3 {
				all.Go(func() {
					for range 5 {
						h, err := placed(groups, instance, name).Lock(t.Context())
						if err != nil {
							t.Errorf("%s on instance %d: %v", name, instance, err)
							return
						}
						mu.Lock()
						if holder[name]++; holder[name] != 1 || h.Token() <= last[name] {
							t.Errorf("%s: %d holders, token %v after %v", name, holder[name], h.Token(), last[name])
						}
						last[name] = h.Token()
						mu.Unlock()
						time.Sleep(5 * time.Millisecond)
						mu.Lock()
						holder[name]--
						mu.Unlock()
						if err := h.Unlock(); err != nil {
							t.Errorf("unlock %s: %v", name, err)
						}
					}
				})
			}
		}
		all.Wait()
		if len(used) != len(groups) || len(last) != names {
			t.Fatalf("names in groups: %v, granted %d", used, len(last))
		}
		stopped := 0
		for i := range 2 {
			groups[stopped].Crash(i)
		}
		bit := 0
		for i := range names {
			name := fmt.Sprint("tenant-", i)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			h, err := placed(groups, 2, name).Lock(ctx)
			cancel()
			switch here := group(name, len(groups)) == stopped; {
			case here && err == nil:
				t.Errorf("%s was granted without a quorum", name)
			case here:
				bit++
			case err != nil:
				t.Errorf("%s: %v", name, err)
			default:
				unlock(t, h)
			}
		}
		if bit == 0 {
			t.Error("no name lies in the group that was stopped")
		}
	})
}

// The number of groups must not change while locks are held: an instance that counts one more is granted, in another group, what is held in the first. Going through a step in which
// every instance locks in both groups keeps a name exclusive.
func TestANameMovesToAnotherGroup(t *testing.T) {
	bubble(t, func(t *testing.T) {
		groups := service(t, 2)
		const before, after = 0, 1 // of a name that another count of groups moves
		const name = "tenant-1"
		old := lockIn(t, groups[before].Node(0), name, grantBound)
		other := lockIn(t, groups[after].Node(1), name, grantBound)
		if old.Err() != nil || other.Err() != nil {
			t.Fatal("the control shows no overlap")
		}
		unlock(t, other)

		both := func(instance int) (first, second *quorumlock.Hold, err error) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if first, err = quorumlock.NewMutex(groups[before].Node(instance), name).Lock(ctx); err != nil {
				return nil, nil, err
			}
			if second, err = quorumlock.NewMutex(groups[after].Node(instance), name).Lock(ctx); err != nil {
				unlock(t, first)
			}
			return first, second, err
		}
		// First deploy: instance 1 locks in both, instance 0 in the old one.
		if _, _, err := both(1); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("beside an instance of before: %v", err)
		}
		unlock(t, old)
		first, second, err := both(1)
		if err != nil {
			t.Fatal(err)
		}
		// Second deploy, when all lock in both: instance 2 locks in the new one.
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := quorumlock.NewMutex(groups[after].Node(2), name).Lock(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("an instance of afterwards: %v", err)
		}
		if second.Token() <= first.Token() {
			t.Errorf("the group that was founded later grants token %v after %v: a fence would refuse its holders", second.Token(), first.Token())
		}
		unlock(t, second)
		unlock(t, first)
		unlock(t, lockIn(t, groups[after].Node(2), name, grantBound))
	})
}
