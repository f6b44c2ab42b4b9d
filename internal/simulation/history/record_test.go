package history

import (
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/watch"
)

// TestSum: the sum tells any two records apart, and their order, and not when the run took place.
func TestSum(t *testing.T) {
	tape := generate(3, 60)
	sum := play(tape).Sum()
	if again := play(tape).Sum(); again != sum {
		t.Errorf("the same records give %s and %s", sum, again)
	}
	for i := 1; i < len(tape); i++ {
		if a, b := tape[i-1], tape[i]; !reflect.DeepEqual(a, b) && a.kind != kindObserver {
			tape[i-1], tape[i] = b, a
			if play(tape).Sum() == sum {
				t.Errorf("records %d and %d changed places, the sum did not change", i-1, i)
			}
			tape[i-1], tape[i] = a, b
		}
	}
}

// TestSumOfEach: every method and every field counts.
func TestSumOfEach(t *testing.T) {
	e := watch.Event{
		Rev: 1, Kind: watch.Granted, Name: "a", Token: 1, Session: 1, ServerID: "n", Index: 1, Time: ms(1), Note: "x",
	}
	event := func(alter func(e *watch.Event)) func(h *History) {
		changed := e
		alter(&changed)
		return func(h *History) { h.Observer("o").Event(changed, ms(2)) }
	}
	c, long := during("a", 1, 2), during("a", 1, 3)
	other := c
	other.Client = "d"
	sums := make(map[string]string)
	for name, do := range map[string]func(h *History){
		"nothing":          func(*History) {},
		"asks":             func(h *History) { h.Asks(Claim{ID: "i"}) },
		"asks other":       func(h *History) { h.Asks(Claim{ID: "j"}) },
		"asks names":       func(h *History) { h.Asks(Claim{ID: "i", Names: []string{"a"}}) },
		"asks two names":   func(h *History) { h.Asks(Claim{ID: "i", Names: []string{"a", "b"}}) },
		"asks mode":        func(h *History) { h.Asks(Claim{ID: "i", Mode: shared}) },
		"asks permits":     func(h *History) { h.Asks(Claim{ID: "i", Permits: 1}) },
		"asks limit":       func(h *History) { h.Asks(Claim{ID: "i", Limit: 1}) },
		"asks delay":       func(h *History) { h.Asks(Claim{ID: "i", Delay: 1}) },
		"asks cap":         func(h *History) { h.Asks(Claim{ID: "i", MaxHold: 1}) },
		"asks from":        func(h *History) { h.Asks(Claim{ID: "i", From: "h"}) },
		"acquired":         func(h *History) { h.Acquired(c, "i", 1) },
		"longer":           func(h *History) { h.Acquired(long, "i", 1) },
		"later":            func(h *History) { h.Acquired(during("a", 0, 2), "i", 1) },
		"other client":     func(h *History) { h.Acquired(other, "i", 1) },
		"other lock":       func(h *History) { h.Acquired(during("b", 1, 2), "i", 1) },
		"other token":      func(h *History) { h.Acquired(c, "i", 2) },
		"other claim":      func(h *History) { h.Acquired(c, "j", 1) },
		"refused":          func(h *History) { h.Refused(c, "i", "h") },
		"refused other":    func(h *History) { h.Refused(c, "i", "g") },
		"failed":           func(h *History) { h.Failed(c, "i") },
		"unlocked":         func(h *History) { h.Unlocked(c, "i", Clean) },
		"lost":             func(h *History) { h.Unlocked(c, "i", Lost) },
		"hands over":       func(h *History) { h.HandsOver("i") },
		"handed over":      func(h *History) { h.HandedOver(c, "i", "n", Clean) },
		"handed to other":  func(h *History) { h.HandedOver(c, "i", "m", Clean) },
		"handed, lost":     func(h *History) { h.HandedOver(c, "i", "n", Lost) },
		"proclaimed":       func(h *History) { h.Proclaimed(c, "i", "v", Clean) },
		"proclaimed other": func(h *History) { h.Proclaimed(c, "i", "w", Clean) },
		"leads":            func(h *History) { h.Leads("o", "e", 1, "v", ms(1)) },
		"leads otherwise":  func(h *History) { h.Leads("o", "e", 1, "w", ms(1)) },
		"other leads":      func(h *History) { h.Leads("o", "e", 2, "v", ms(1)) },
		"other sees it":    func(h *History) { h.Leads("p", "e", 1, "v", ms(1)) },
		"resized":          func(h *History) { h.Resized(c, 1, Clean) },
		"resized other":    func(h *History) { h.Resized(c, 2, Clean) },
		"inspected":        func(h *History) { h.Inspected(c, []string{"i"}, 1) },
		"inspected two":    func(h *History) { h.Inspected(c, []string{"i", "j"}, 1) },
		"waiting":          func(h *History) { h.Inspected(c, []string{"i"}, 2) },
		"opened":           func(h *History) { h.SessionOpened(c, 1) },
		"closed":           func(h *History) { h.SessionClosed(c, 1, Clean) },
		"forced now":       func(h *History) { h.ForcedNow(1) },
		"held":             func(h *History) { h.Held("i", ms(1)) },
		"held earlier":     func(h *History) { h.Held("i", ms(0)) },
		"ended":            func(h *History) { h.Ended("i", ms(1)) },
		"observer":         func(h *History) { h.Observer("o") },
		"other observer":   func(h *History) { h.Observer("p") },
		"event":            event(func(*watch.Event) {}),
		"event later":      func(h *History) { h.Observer("o").Event(e, ms(3)) },
		"rev":              event(func(e *watch.Event) { e.Rev++ }),
		"kind":             event(func(e *watch.Event) { e.Kind++ }),
		"name":             event(func(e *watch.Event) { e.Name = "b" }),
		"token":            event(func(e *watch.Event) { e.Token++ }),
		"session":          event(func(e *watch.Event) { e.Session++ }),
		"claim":            event(func(e *watch.Event) { e.Claim++ }),
		"node":             event(func(e *watch.Event) { e.ServerID = "m" }),
		"index":            event(func(e *watch.Event) { e.Index++ }),
		"time":             event(func(e *watch.Event) { e.Time = ms(2) }),
		"note":             event(func(e *watch.Event) { e.Note = "y" }),
		"mode":             event(func(e *watch.Event) { e.Mode = shared }),
		"count":            event(func(e *watch.Event) { e.Permits = 1 }),
		"value":            event(func(e *watch.Event) { e.Value = "v" }),
		"shifted text":     event(func(e *watch.Event) { e.Name, e.ServerID = "an", "" }),
	} {
		h := New(epoch)
		do(h)
		if twin, known := sums[h.Sum()]; known {
			t.Errorf("%q and %q have the same sum", name, twin)
		}
		sums[h.Sum()] = name
	}
	a, b := New(epoch), New(epoch.Add(time.Hour))
	a.Held("i", ms(1))
	b.Held("i", ms(1).Add(time.Hour))
	if a.Sum() != b.Sum() {
		t.Error("the sum depends on when the run began")
	}
}

// TestConcurrent: for the race detector. Nothing is lost, either.
func TestConcurrent(t *testing.T) {
	h := New(epoch)
	var all sync.WaitGroup
	for k := range int64(8) {
		all.Go(func() {
			o := h.Observer("n")
			for i := range int64(100) {
				o.Event(watch.Event{Rev: 100 + i, Kind: watch.SessionOpened, Session: 100 + i, Index: uint64(i)}, ms(int(i)))
				h.SessionOpened(during("", int(i), int(i)), 100+i+1000*k)
				h.Held(fmt.Sprint(k), ms(int(i)))
				h.Ended(fmt.Sprint(k), ms(int(i)))
				h.Refused(during("x", 0, 1), "i", "")
				if i%50 == 0 {
					h.Check(0)
					h.Sum()
				}
			}
		})
	}
	all.Wait()
	r := h.Check(0)
	if r.Calls != 1600 || r.Events != 100 || r.Found[SessionRule] != 700 || r.Found[Linearizable] != 800 || r.Found[WatchOrder] != 0 {
		t.Errorf("%d calls, %d events, found %v", r.Calls, r.Events, r.Found)
	}
}
