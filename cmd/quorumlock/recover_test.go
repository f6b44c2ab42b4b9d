//go:build unix

package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// What recover refuses it leaves as it was.
func TestRecoverRefuses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	_, stop := startOne(t, "cli-recover", dir)
	recoverIn := func(flags ...string) answer {
		return call(t, append([]string{"recover", "--cluster", "cli-recover"}, flags...)...)
	}
	if r := recoverIn("--dir", dir).want(t, codeUsage); !strings.Contains(r.errs, "--dir") {
		t.Errorf("an instance runs there: %s", r.errs)
	}
	stop()
	before := objects[recoveryView](t, recoverIn("--dir", dir, "--json").want(t, codeOK).out)[0]
	if !before.DryRun || before.OldClusterID == "" || before.ClusterID != "" || before.Index == 0 || before.Term == 0 || before.QuarantineMS < 80_000 || before.LastEntry == nil {
		t.Fatalf("%+v", before)
	}
	for name, test := range map[string]struct {
		flags []string
		says  string
	}{
		"another cluster":   {[]string{"--dir", dir, "--give-up", strings.Repeat("0", 32)}, "--give-up"},
		"another name":      {[]string{"--dir", dir, "--cluster", "other", "--give-up", before.OldClusterID}, "cli-recover"},
		"a broken floor":    {[]string{"--dir", dir, "--give-up", before.OldClusterID, "--token-floor", "x"}, "--token-floor"},
		"a floor too high":  {[]string{"--dir", dir, "--give-up", before.OldClusterID, "--token-floor", "9000000000000000"}, "--token-floor"},
		"no such directory": {[]string{"--dir", filepath.Join(dir, "nothing"), "--give-up", before.OldClusterID}, "--dir"},
		"no directory":      {nil, "dir"},
	} {
		if r := recoverIn(test.flags...); r.code == codeOK || !strings.Contains(r.errs, test.says) {
			t.Errorf("%s: %d %s", name, r.code, r.errs)
		}
	}
	if after := objects[recoveryView](t, recoverIn("--dir", dir, "--json").want(t, codeOK).out)[0]; after.Index != before.Index || after.OldClusterID != before.OldClusterID {
		t.Errorf("before %+v, after %+v", before, after)
	}
	done := objects[recoveryView](t, recoverIn("--dir", dir, "--give-up", before.OldClusterID, "--json").want(t, codeOK).out)[0]
	if done.DryRun || done.ClusterID == "" || done.ClusterID == before.OldClusterID || done.ServerID == "" {
		t.Errorf("%+v", done)
	}
}
