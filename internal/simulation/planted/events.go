package main

import (
	"bufio"
	"encoding/json"
	"io"
	"regexp"
	"slices"
	"strings"
)

// event is one line of go test -json.
type event struct {
	Action      string
	Package     string
	ImportPath  string // of build-output
	Test        string
	Output      string
	FailedBuild string
}

// failure is the first test that failed in a run.
type failure struct {
	test   string // package and full name, or the package alone if it failed outside of its tests
	line   string // the first line that says what is wrong
	kind   kind
	output string // all that the test said
}

// kind tells a judgement of a test from an accident of the run.
type kind uint8

const (
	judged   kind = iota // a test said no, or the code under it panicked
	unbuilt              // it did not compile: the edit's fault, not a find
	timedOut             // the tests were still running at their time limit
)

// places are the source positions at which tests of an unmutated tree log. The go command does not tell t.Log from t.Error; but whatever a test
// that passes prints can not be an error.
type places map[string]bool

var (
	position = regexp.MustCompile(`^\s*([\w.-]+\.go:\d+): `)
	crash    = regexp.MustCompile(`(?m)^(panic: |fatal error: )`)
	// frame is what package testing and the go command say around a test's own words.
	frame = regexp.MustCompile(`^($|=== |--- |# |PASS$|FAIL\b|ok\b)`)
)

// placeOf is the source position at the beginning of a line of a test's output, "" if there is none.
func placeOf(line string) string {
	if m := position.FindStringSubmatch(line); m != nil {
		return m[1]
	}
	return ""
}

// reader follows a stream of events.
type reader struct {
	logs   places // that are known
	seen   places // takes in those of the tests that pass, if not nil; may be the same
	output map[string]*strings.Builder
	builds strings.Builder
	tests  int
	open   []*event // tests without a result, in the order in which they began
}

func newReader(logs, seen places) *reader {
	return &reader{logs: logs, seen: seen, output: make(map[string]*strings.Builder)}
}

// read takes events until the first failure, or to the end of the stream. Lines that are no events are passed over: a test binary may write past
// the go command. Of nested tests the innermost fails first.
func (r *reader) read(in io.Reader) (*failure, error) {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		e := new(event)
		if json.Unmarshal(lines.Bytes(), e) != nil {
			continue
		}
		if f := r.take(e); f != nil {
			return f, nil
		}
	}
	return nil, lines.Err()
}

func (r *reader) take(e *event) *failure {
	switch e.Action {
	case "run":
		r.tests++
		r.open = append(r.open, e)
	case "output":
		r.note(e.name(), e.Output)
	case "build-output":
		r.builds.WriteString(e.Output)
	case "pass", "skip":
		r.passed(e)
	case "fail":
		return r.failed(e)
	}
	return nil
}

// name is a test's full name, or the package alone.
func (e *event) name() string {
	if e.Test == "" {
		return e.Package
	}
	return e.Package + "." + e.Test
}

func (r *reader) note(name, output string) {
	b := r.output[name]
	if b == nil {
		b = new(strings.Builder)
		r.output[name] = b
	}
	b.WriteString(output)
}

// passed ends a test, and learns where it logged.
func (r *reader) passed(e *event) {
	r.open = slices.DeleteFunc(r.open, func(o *event) bool { return o.name() == e.name() })
	b := r.output[e.name()]
	if b == nil || r.seen == nil {
		return
	}
	for line := range strings.Lines(b.String()) {
		if p := placeOf(line); p != "" {
			r.seen[p] = true
		}
	}
}

func (r *reader) failed(e *event) *failure {
	if e.FailedBuild != "" {
		output := r.builds.String()
		return &failure{test: e.name(), kind: unbuilt, output: output, line: firstError(output, nil)}
	}
	f := &failure{test: e.name()}
	if e.Test == "" {
		f.test = r.died(e.Package)
	}
	if b := r.output[f.test]; b != nil {
		f.output = b.String()
	}
	if strings.Contains(f.output, "panic: test timed out after ") {
		f.kind = timedOut
	}
	f.line = firstError(f.output, r.logs)
	return f
}

// died says who is to blame when a package failed and none of its tests: the process ended under the hands of a test, by a panic on some
// goroutine or at the time limit. What the runtime says of that stands in the output of one test that was running; if there is none, the tests had passed and
// something after them failed.
func (r *reader) died(pkg string) string {
	blamed := pkg
	for _, o := range r.open {
		if o.Package != pkg {
			continue
		}
		blamed = o.name()
		if b := r.output[blamed]; b != nil && crash.MatchString(b.String()) {
			return blamed
		}
	}
	return blamed
}

// firstError picks from the output of a failed test the line that says what is wrong: a panic, a race or a leak as the runtime reports it, or the
// first line with a position at which no passing test logs. If there is none, the last position is the likeliest, as errors come after logs.
func firstError(output string, logs places) string {
	var last, other string
	for line := range strings.Lines(output) {
		text := strings.TrimSpace(line)
		switch p := placeOf(line); {
		case strings.HasPrefix(text, "panic: "), strings.HasPrefix(text, "fatal error: "), strings.HasPrefix(text, "WARNING: DATA RACE"):
			return text
		case p != "" && !logs[p]:
			return text
		case p != "":
			last = text
		case other == "" && !frame.MatchString(text):
			other = text
		}
	}
	if last != "" {
		return last
	}
	return other
}
