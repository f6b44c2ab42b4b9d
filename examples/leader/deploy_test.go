package main

import (
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var lastLineOfDeploy = regexp.MustCompile(`^ok: 0 failed calls, longest pause (\d+) ms$`)

// TestDeploy replaces all processes as a user does it, in the two ways there are.
func TestDeploy(t *testing.T) {
	if testing.Short() {
		t.Skip("starts six processes")
	}
	for name, args := range map[string][]string{"new ones first, in memory": {"-deploy"}, "in their places": {"-deploy", "-dirs"}} {
		t.Run(name, func(t *testing.T) {
			lines := play(t, args...)
			m := lastLineOfDeploy.FindStringSubmatch(lines[len(lines)-1])
			if m == nil {
				t.Fatalf("last line %q", lines[len(lines)-1])
			}
			if pause, _ := strconv.Atoi(m[1]); pause == 0 || time.Duration(pause)*time.Millisecond > maxPause {
				t.Errorf("longest pause %d ms", pause)
			}
			one := []string{"ready", "SIGTERM", "gone"}
			if slices.Contains(args, "-dirs") {
				one = []string{"SIGTERM", "gone", "ready"}
			}
			events := slices.Concat([]string{"quorum formed", "writes accepted"}, one, one, one, []string{"deployed", "stopped", "calls"})
			checkEvents(t, lines, events...)
			if story := strings.Join(lines, "\n"); !strings.Contains(story, "leader of the cluster") {
				t.Error("the leader of the cluster was never stopped")
			}
		})
	}
}

func TestPauseIsOfCallsUnderWay(t *testing.T) {
	at := func(ms int) time.Time { return time.UnixMilli(int64(ms)) }
	r := trafficReport{Slow: []slowCall{{at(0), at(90)}, {at(95), at(130)}, {at(150), at(160)}, {at(200), at(900)}}}
	for name, c := range map[string]struct {
		begin, end int
		want       time.Duration
	}{
		"one that began before":  {100, 120, 35 * time.Millisecond},
		"the longest of several": {80, 180, 90 * time.Millisecond},
		"one that ends after":    {190, 300, 700 * time.Millisecond},
		"none":                   {131, 149, 0},
		"none at its very end":   {90, 95, 0},
	} {
		if got := r.pause(at(c.begin), at(c.end)); got != c.want {
			t.Errorf("%s: %v, not %v", name, got, c.want)
		}
	}
}

func TestTrafficReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var one traffic
		for range 2 * maxFailures {
			one.note(time.Now(), errors.New("no quorum"))
		}
		for range 3 * maxSlow {
			begun := time.Now()
			time.Sleep(slowWait)
			one.note(begun, nil)
		}
		begun := time.Now()
		time.Sleep(time.Second)
		one.note(begun, nil)
		begun = time.Now()
		time.Sleep(time.Minute)
		one.note(begun, errors.New("a failed call is no pause"))
		sum := trafficReport{Calls: 1, Failed: 1, Longest: time.Millisecond}
		other := one.view()
		sum.add(&other)
		if calls := 2*maxFailures + 3*maxSlow + 3; sum.Calls != calls || sum.Failed != 2*maxFailures+2 || sum.Longest != time.Second {
			t.Errorf("%d calls, %d failed, longest %v", sum.Calls, sum.Failed, sum.Longest)
		}
		if len(sum.Slow) != maxSlow || len(sum.Failures) != maxFailures {
			t.Errorf("%d slow calls and %d failures are kept", len(sum.Slow), len(sum.Failures))
		}
		// What one instance tells of itself must fit into what the director reads.
		if b, err := json.Marshal(other); err != nil || len(b) > maxAnswer {
			t.Errorf("%d bytes, %v", len(b), err)
		}
	})
}

func TestDeployIsJudged(t *testing.T) {
	good := deployment{all: trafficReport{Calls: 100, Longest: 80 * time.Millisecond}, changes: []time.Duration{30 * time.Millisecond}}
	for name, c := range map[string]struct {
		change func(*deployment)
		want   string
	}{
		"good":             {func(*deployment) {}, "ok: 0 failed calls, longest pause 80 ms"},
		"a failed call":    {func(d *deployment) { d.all.Failed = 1 }, "1 of 100 calls failed"},
		"a long pause":     {func(d *deployment) { d.all.Longest = maxPause + 1 }, "longest pause 2.000000001s"},
		"no calls":         {func(d *deployment) { d.all.Calls = 0 }, "nothing was tried"},
		"no leader change": {func(d *deployment) { d.changes = nil }, "nothing was tried"},
	} {
		d := good
		c.change(&d)
		var out strings.Builder
		verdict, err := d.judge(newTimeline(&out))
		if err != nil {
			verdict = err.Error()
		}
		if (err == nil) != (name == "good") || !strings.HasPrefix(verdict, c.want) {
			t.Errorf("%s: %s", name, verdict)
		}
	}
}

func TestMedian(t *testing.T) {
	for want, list := range map[int][]int{0: nil, 3: {9, 3, 1}, 2: {7, 2, 1, 9}, 5: {5}} {
		if got := median(list); got != want {
			t.Errorf("median of %v: %d", list, got)
		}
	}
}
