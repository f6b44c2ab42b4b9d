package main

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// Streams as go test -json writes them, without times.
const (
	nested = `{"Action":"start","Package":"x"}
{"Action":"run","Package":"x","Test":"TestA"}
{"Action":"output","Package":"x","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output","Package":"x","Test":"TestA","Output":"    a_test.go:3: hello\n"}
{"Action":"run","Package":"x","Test":"TestA/one"}
{"Action":"output","Package":"x","Test":"TestA/one","Output":"    a_test.go:4: seed 7\n"}
{"Action":"output","Package":"x","Test":"TestA/one","Output":"    a_test.go:5: wrong: 3\n"}
{"Action":"output","Package":"x","Test":"TestA/one","Output":"        and why\n"}
{"Action":"output","Package":"x","Test":"TestA/one","Output":"--- FAIL: TestA/one (0.00s)\n"}
{"Action":"fail","Package":"x","Test":"TestA/one","Elapsed":0}
{"Action":"fail","Package":"x","Test":"TestA","Elapsed":0}
{"Action":"fail","Package":"x","Elapsed":0.02}
`
	panicked = `{"Action":"run","Package":"x","Test":"TestP"}
{"Action":"output","Package":"x","Test":"TestP","Output":"    a_test.go:4: hello\n"}
{"Action":"output","Package":"x","Test":"TestP","Output":"--- FAIL: TestP (0.00s)\n"}
{"Action":"output","Package":"x","Test":"TestP","Output":"panic: boom [recovered, repanicked]\n"}
{"Action":"output","Package":"x","Test":"TestP","Output":"goroutine 9 [running]:\n"}
{"Action":"fail","Package":"x","Test":"TestP","Elapsed":0}
`
	hung = `{"Action":"run","Package":"x","Test":"TestH"}
{"Action":"output","Package":"x","Test":"TestH","Output":"    a_test.go:4: hello\n"}
{"Action":"output","Package":"x","Test":"TestH","Output":"panic: test timed out after 300ms\n"}
{"Action":"output","Package":"x","Test":"TestH","Output":"\trunning tests:\n"}
{"Action":"output","Package":"x","Output":"FAIL\tx\t0.3s\n"}
{"Action":"fail","Package":"x","Elapsed":0.3}
`
	// The process ends while two tests run side by side.
	crashed = `{"Action":"run","Package":"x","Test":"TestDone"}
{"Action":"output","Package":"x","Test":"TestDone","Output":"panic: not this one, it has passed\n"}
{"Action":"pass","Package":"x","Test":"TestDone","Elapsed":0}
{"Action":"run","Package":"x","Test":"TestC"}
{"Action":"output","Package":"x","Test":"TestC","Output":"fatal error: all goroutines are asleep - deadlock!\n"}
{"Action":"run","Package":"x","Test":"TestD"}
{"Action":"output","Package":"x","Test":"TestD","Output":"=== RUN   TestD\n"}
{"Action":"output","Package":"x","Output":"FAIL\tx\t0.3s\n"}
{"Action":"fail","Package":"x","Elapsed":0.3}
`
	unbuildable = `{"ImportPath":"x [x.test]","Action":"build-output","Output":"# x [x.test]\n"}
{"ImportPath":"x [x.test]","Action":"build-output","Output":"./a_test.go:1:56: undefined: foo\n"}
{"ImportPath":"x [x.test]","Action":"build-fail"}
{"Action":"start","Package":"x"}
{"Action":"output","Package":"x","Output":"FAIL\tx [build failed]\n"}
{"Action":"fail","Package":"x","Elapsed":0,"FailedBuild":"x [x.test]"}
`
	leaked = `{"Action":"run","Package":"x","Test":"TestOK"}
{"Action":"output","Package":"x","Test":"TestOK","Output":"    a_test.go:4: fine\n"}
{"Action":"pass","Package":"x","Test":"TestOK","Elapsed":0}
{"Action":"output","Package":"x","Output":"PASS\n"}
{"Action":"output","Package":"x","Output":"leak: 1 goroutine\n"}
{"Action":"output","Package":"x","Output":"FAIL\tx\t0.1s\n"}
{"Action":"fail","Package":"x","Elapsed":0.1}
`
	green = `{"Action":"run","Package":"x","Test":"TestOK"}
the test binary writes past the go command
{"Action":"output","Package":"x","Test":"TestOK","Output":"    a_test.go:4: fine\n"}
{"Action":"pass","Package":"x","Test":"TestOK","Elapsed":0}
{"Action":"pass","Package":"x","Elapsed":0.1}
`
)

func TestFirstFailure(t *testing.T) {
	logs := places{"a_test.go:3": true, "a_test.go:4": true}
	for _, c := range []struct {
		name, stream string
		logs         places
		want         failure // without its output
	}{
		{"the innermost test", nested, logs, failure{test: "x.TestA/one", line: "a_test.go:5: wrong: 3"}},
		{"where nobody knows what is logged", nested, nil, failure{test: "x.TestA/one", line: "a_test.go:4: seed 7"}},
		{"an error from where others log", nested, places{"a_test.go:4": true, "a_test.go:5": true}, failure{test: "x.TestA/one", line: "a_test.go:5: wrong: 3"}},
		{"a panic", panicked, logs, failure{test: "x.TestP", line: "panic: boom [recovered, repanicked]"}},
		{"a crash", crashed, logs, failure{test: "x.TestC", line: "fatal error: all goroutines are asleep - deadlock!"}},
		{"a time-out is no judgement", hung, logs, failure{test: "x.TestH", line: "panic: test timed out after 300ms", kind: timedOut}},
		{"nor is a compiler's error", unbuildable, logs, failure{test: "x", line: "./a_test.go:1:56: undefined: foo", kind: unbuilt}},
		{"a package whose tests have passed", leaked, logs, failure{test: "x", line: "leak: 1 goroutine"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := newReader(c.logs, nil).read(strings.NewReader(c.stream))
			if err != nil || f == nil {
				t.Fatalf("%v, %v", f, err)
			}
			got := *f
			got.output = ""
			if got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
			if !strings.Contains(f.output, strings.TrimSpace(f.line)) {
				t.Errorf("the output is %q", f.output)
			}
		})
	}
}

func TestGreenStream(t *testing.T) {
	seen := make(places)
	r := newReader(nil, seen)
	if f, err := r.read(strings.NewReader(green)); f != nil || err != nil {
		t.Errorf("%+v, %v", f, err)
	}
	if got := slices.Collect(maps.Keys(seen)); !slices.Equal(got, []string{"a_test.go:4"}) {
		t.Errorf("logs at %v", got)
	}
	if r.tests != 1 {
		t.Errorf("%d tests", r.tests)
	}
}

func TestReadingStopsAtTheFirstFailure(t *testing.T) {
	rest := strings.NewReader(nested + strings.Repeat("x", 1<<20))
	if f, err := newReader(nil, nil).read(rest); f == nil || err != nil {
		t.Fatalf("%v, %v", f, err)
	}
	if rest.Len() == 0 {
		t.Error("all was read")
	}
}
