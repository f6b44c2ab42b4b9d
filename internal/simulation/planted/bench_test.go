package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

const lockFile = "lock/lock.go"

// small are bugs of the little module in testdata, one for each thing that can come of a bug.
var small = map[string]bug{
	"standstill": {name: "standstill", what: "the counter stands still", edit: edit{lockFile, "last + 1", "last"}, tests: []string{"lock"}},
	"backwards":  {name: "backwards", what: "the counter goes back", edit: edit{lockFile, "last + 1", "last - 1"}, tests: []string{"lock"}},
	"unseen":     {name: "unseen", what: "nobody looks", edit: edit{lockFile, `"lock"`, `"look"`}, tests: []string{"lock"}},
	"endless":    {name: "endless", what: "waits for ever", edit: edit{lockFile, "looks++", "looks = 0"}, tests: []string{"lock"}},
	"gone":       {name: "gone", what: "was changed", edit: edit{lockFile, "last + 2", "last"}, tests: []string{"lock"}},
	"broken":     {name: "broken", what: "no Go", edit: edit{lockFile, "last + 1", "last +"}, tests: []string{"lock"}},
	"untested":   {name: "untested", what: "its own tests do not compile", edit: edit{lockFile, "func Wait()", "func Wait2()"}, tests: []string{"lock"}},
	"unused":     {name: "unused", what: "others do not compile", edit: edit{lockFile, "func Home()", "func Home2()"}, tests: []string{"sim"}},
}

func chosen(names ...string) (list []bug) {
	for _, name := range names {
		list = append(list, small[name])
	}
	return list
}

func testOptions() *options {
	return &options{simulator: "./sim", simulationLimit: time.Minute, limit: time.Minute, stages: stageNames}
}

var took = regexp.MustCompile(`\b[0-9.m]+s\b`)

// plantSmall runs the bench on the little module, and says what it wrote, without times. Nothing may be left behind, whatever came of it.
func plantSmall(ctx context.Context, t *testing.T, o *options, list []bug) (string, error) {
	t.Helper()
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	var out strings.Builder
	err := plantIn(ctx, filepath.Join("testdata", "module"), list, o, &out)
	left, readErr := os.ReadDir(temp)
	if readErr != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, readErr)
	}
	return took.ReplaceAllString(out.String(), "T"), err
}

func expect(t *testing.T, got string, want ...string) {
	t.Helper()
	for _, line := range want {
		if !strings.Contains(got, line) {
			t.Errorf("%q is missing", line)
		}
	}
	if t.Failed() {
		t.Log(got)
	}
}

func TestStagesRunUntilOneFindsTheBug(t *testing.T) {
	got, err := plantSmall(t.Context(), t, testOptions(), chosen("standstill", "backwards", "unseen"))
	expect(t, got,
		"control     simulation   green, 1 tests in T\ncontrol     everything   green, 6 tests in T\n",
		"found       standstill by simulation in T\n"+
			"            simulation   T, example.test/module/sim.TestSchedules: sim_test.go:11: the counter stands still\n",
		"found       backwards by nearest in T\n"+
			"            simulation   green, 1 tests in T\n"+
			"            nearest      T, example.test/module/lock.TestNext/after: lock_test.go:11: token -1 after 0\n",
		"NOT FOUND   unseen: nobody looks\n"+
			"            simulation   green, 1 tests in T\n            nearest      green, 4 tests in T\n            everything   green, 6 tests in T\n",
		"found 2 of 3\n")
	if err == nil {
		t.Error("not every bug was found, and the run says nothing")
	}
}

func TestAllStages(t *testing.T) {
	o := testOptions()
	o.allStages = true
	pure := small["standstill"]
	pure.pure, pure.waits = true, "another form waits"
	got, err := plantSmall(t.Context(), t, o, []bug{pure})
	expect(t, got,
		"found       standstill by nearest in T\n"+
			"            nearest      T, example.test/module/lock.TestNext/after: lock_test.go:11: token 0 after 0\n"+
			"            simulation   T, example.test/module/sim.TestSchedules",
		"            everything   T, example.test/module/",
		"            waits        another form waits\nfound 1 of 1\n")
	if err != nil {
		t.Error(err)
	}
}

func TestWhatIsNoFind(t *testing.T) {
	o := testOptions()
	o.stages, o.limit = []string{nearest}, 2*time.Second
	got, err := plantSmall(t.Context(), t, o, chosen("gone", "broken", "untested", "unused", "endless"))
	expect(t, got,
		"ERROR       gone: lock/lock.go: the edit no longer applies: its old text is not in the file\n",
		"ERROR       broken: it does not compile: go vet ./lock",
		"ERROR       untested: it does not compile: go vet ./lock",
		"ERROR       unused: nearest: the tests do not compile\n",
		"NOT FOUND   endless: waits for ever\n            nearest      HUNG after T, in example.test/module/lock.TestWait\n",
		"found 0 of 5\n")
	if err == nil {
		t.Error("nothing was found, and the run says nothing")
	}
}

func TestControlHasToBeGreen(t *testing.T) {
	t.Setenv("PLANTED_RED", "yes")
	got, err := plantSmall(t.Context(), t, testOptions(), chosen("standstill"))
	expect(t, got, "control     everything   T, example.test/module/red.TestRed: red_test.go:11: red before anything was planted\n")
	if !errors.Is(err, errControl) || strings.Contains(got, "found") {
		t.Errorf("%v\n%s", err, got)
	}
}

func TestAStageThatRunsNothingIsNoControl(t *testing.T) {
	o := testOptions()
	o.simulator = "./sim -run TestNothing"
	if _, err := plantSmall(t.Context(), t, o, chosen("standstill")); !errors.Is(err, errNoTests) {
		t.Errorf("%v, want %v", err, errNoTests)
	}
}

func TestCheck(t *testing.T) {
	o := testOptions()
	o.check = true
	got, err := plantSmall(t.Context(), t, o, chosen("standstill", "unseen"))
	expect(t, got, "2 of 2 bugs apply and compile\n")
	if err != nil {
		t.Error(err)
	}
	_, err = plantSmall(t.Context(), t, o, chosen("standstill", "gone", "broken"))
	if !errors.Is(err, errNotThere) || !strings.Contains(err.Error(), "broken: it does not compile") || strings.Contains(err.Error(), "standstill") {
		t.Errorf("%v", err)
	}
}

// TestInterrupt ends a run whose tests would go on for a long time.
func TestInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("interrupted")
	b := small["endless"]
	started := filepath.Join(t.TempDir(), "started")
	b.edit.new = "looks = 0; _ = os.WriteFile(\"" + filepath.ToSlash(started) + "\", nil, 0o600)"
	b.edit.old = "looks++"
	o := testOptions()
	o.stages, o.limit = []string{nearest}, time.Hour
	go func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(started); err == nil {
				cancel(why)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	_, err := plantSmall(ctx, t, o, []bug{b})
	cancel(nil)
	if !errors.Is(err, why) {
		t.Errorf("%v, want %v", err, why)
	}
}

func TestParse(t *testing.T) {
	o, err := parse([]string{"-only", "x", "-stages", "nearest,simulation", "-all-stages", "-v"}, new(strings.Builder))
	if err != nil || o.only != "x" || !o.allStages || !o.verbose || len(o.stages) != 2 {
		t.Errorf("%+v, %v", o, err)
	}
	for _, args := range [][]string{{"-stages", "nothing"}, {"word"}, {"-only"}} {
		if _, err := parse(args, new(strings.Builder)); err == nil {
			t.Errorf("%v is taken", args)
		}
	}
}

func TestListNamesEveryBug(t *testing.T) {
	var out strings.Builder
	if err := start(t.Context(), []string{"-list"}, &out); err != nil {
		t.Fatal(err)
	}
	for _, b := range bugs {
		if !strings.Contains(out.String(), b.name) {
			t.Errorf("%s is missing", b.name)
		}
	}
	if err := start(t.Context(), []string{"-only", "nothing"}, &out); err == nil {
		t.Error("a bug that does not exist is taken")
	}
}
