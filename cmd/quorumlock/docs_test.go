package main

import (
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestDocumentation holds docs/CLI.md to every command, to the variables, and to every field that --json prints.
func TestDocumentation(t *testing.T) {
	text, err := os.ReadFile("../../docs/CLI.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	for _, view := range []any{
		lockView{}, holderView{}, waiterView{}, freshness{}, memberView{}, statusView{}, eventView{}, releaseView{}, leaderView{}, benchView{}, agentView{}, versionView{}, errorView{},
		snapshotView{}, contentView{}, storedView{}, restoreView{}, recoveryView{}, drillView{}, stepView{},
		inspectView{}, sessionView{}, auditView{}, actView{},
	} {
		for f := range fields(reflect.TypeOf(view)) {
			if !strings.Contains(page, "`"+f+"`") {
				t.Errorf("%T: field %s is not documented", view, f)
			}
		}
	}
	root := newRoot(&invocation{})
	for _, cmd := range root.Commands() {
		if !strings.Contains(page, "`"+cmd.Name()) {
			t.Errorf("command %s is not documented", cmd.Name())
		}
		documented(t, page, cmd)
		for _, sub := range cmd.Commands() {
			if cmd.Name() != "completion" && !strings.Contains(page, "`"+cmd.Name()+" "+sub.Name()) {
				t.Errorf("command %s %s is not documented", cmd.Name(), sub.Name())
			}
			documented(t, page, sub)
		}
	}
	for _, code := range []int{codeFailed, codeUsage, codeLocked, codeNotHeld, codeNoQuorum, codeUnreachable, codeWrongCluster, codeWrongToken, codeDegraded, codeRefused, codeInterrupted, codeTruncated, codeAltered, codeForeign, codeNewer, codeKey, codeRunLost, codeRunNotGranted, codeRunFailed} {
		if !strings.Contains(page, "\n| "+strconv.Itoa(code)+" |") {
			t.Errorf("exit code %d is not documented", code)
		}
	}
}

// documented wants each variable on the page, but for those that it names by "and so on".
func documented(t *testing.T, page string, cmd *cobra.Command) {
	t.Helper()
	cmd.InheritedFlags().VisitAll(func(f *pflag.Flag) {
		for _, variable := range f.Annotations[envAnnotation] {
			if !strings.Contains(page, variable) && !strings.Contains(page, strings.TrimPrefix(variable, "QUORUMLOCK_TLS")) {
				t.Errorf("%s: %s is not documented", f.Name, variable)
			}
		}
	})
}

func fields(typ reflect.Type) map[string]bool {
	names := make(map[string]bool)
	for i := range typ.NumField() {
		if name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ","); name != "" {
			names[name] = true
		}
	}
	return names
}
