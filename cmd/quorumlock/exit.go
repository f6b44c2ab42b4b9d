package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/snapshots"
	"github.com/quorumlock/quorumlock/transport"
)

// The exit codes. They are documented, and scripts branch on them: a number never changes its meaning.
const (
	codeOK           = 0
	codeFailed       = 1
	codeUsage        = 2
	codeLocked       = 3
	codeNotHeld      = 4
	codeNoQuorum     = 5
	codeUnreachable  = 6
	codeWrongCluster = 7
	codeWrongToken   = 8
	codeDegraded     = 9
	codeRefused      = 10
	codeInterrupted  = 130
)

// The codes for what is wrong with a snapshot.
const (
	codeTruncated = 20
	codeAltered   = 21
	codeForeign   = 22
	codeNewer     = 23
	codeKey       = 24
)

// The codes of run that do not come from its command. Like those of env(1) and timeout(1) they lie above the codes that commands use.
const (
	codeRunLost       = 123 // the lock was lost, and the command ended for it
	codeRunNotGranted = 124
	codeRunFailed     = 125
	codeRunCannot     = 126 // the command cannot be executed
	codeRunNotFound   = 127 // there is no such command
)

// failure is an error of a command's work. All others come from the command line itself.
type failure struct {
	err         error
	interrupted bool
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// codedError is an error whose command knows the exit code.
type codedError struct {
	code   int
	advice string // what to do, "" if the message says it
	err    error
}

func (e *codedError) Error() string { return e.err.Error() }
func (e *codedError) Unwrap() error { return e.err }

const adviceNoQuorum = "bring a majority of the voters back; quorumlock members shows which ones answer"

// Errors that end a command which has said all there is to say.
var (
	errDegraded = errors.New("answered without a quorum") // and that is not what was asked for
	errSaid     = errors.New("said already")
)

// fail tells of an error, on one line or as one object, and gives the exit code.
func (inv *invocation) fail(cmd *cobra.Command, err error) int {
	code, advice := verdict(err)
	var failed *failure
	if !errors.As(err, &failed) {
		code = codeUsage
		advice = fmt.Sprintf("see %s --help", cmd.CommandPath())
	}
	if errors.Is(err, errDegraded) || errors.Is(err, errSaid) {
		return code
	}
	if (cmd.Name() == "run" || inv.underLock) && code < codeRunLost {
		code = codeRunFailed
	}
	message := inFlags(oneLine(err.Error()))
	if strings.HasPrefix(message, "accepts ") { // arguments
		message = "want " + cmd.UseLine()
	}
	if inv.json {
		_ = json.NewEncoder(inv.errs).Encode(errorView{Error: message, Advice: advice, Code: code})
		return code
	}
	line := "quorumlock: " + strings.TrimRight(message, ".")
	if advice != "" {
		line += ". " + strings.ToUpper(advice[:1]) + advice[1:]
	}
	fmt.Fprintln(inv.errs, line)
	return code
}

// errorView is what --json prints to standard error.
type errorView struct {
	Error  string `json:"error"`
	Advice string `json:"advice,omitempty"`
	Code   int    `json:"code"`
}

// verdict is the one place where errors become exit codes and advice.
func verdict(err error) (code int, advice string) {
	var (
		coded   *codedError
		failed  *failure
		refused *transport.RefusedError
	)
	interrupted := errors.As(err, &failed) && failed.interrupted
	fault, _, faultAdvice := faultOf(err)
	switch {
	case errors.As(err, &coded):
		return coded.code, coded.advice
	case interrupted:
		return codeInterrupted, ""
	case errors.Is(err, errDegraded):
		return codeDegraded, ""
	case fault != 0:
		return fault, faultAdvice
	case errors.As(err, &refused) && refused.Code == transport.RefusedCluster, errors.Is(err, quorumlock.ErrClusterChanged):
		return codeWrongCluster, "name the cluster that runs there with --cluster, or its members with --join"
	case errors.Is(err, quorumlock.ErrLocked):
		return codeLocked, ""
	case errors.As(err, new(*transport.PlaintextError)):
		return codeUsage, "give TLS files, or --allow-plaintext if the network is trusted"
	case errors.Is(err, quorumlock.ErrUnlocked), errors.Is(err, quorumlock.ErrNoLeader), errors.Is(err, quorumlock.ErrNoSession), errors.Is(err, snapshots.ErrNotFound):
		return codeNotHeld, ""
	case errors.Is(err, quorumlock.ErrInvalid), errors.Is(err, quorumlock.ErrKind), errors.Is(err, quorumlock.ErrLimit):
		return codeUsage, ""
	case errors.Is(err, quorumlock.ErrNoQuorum):
		return codeNoQuorum, adviceNoQuorum
	case errors.Is(err, quorumlock.ErrRefused):
		return codeRefused, "nothing was done"
	case errors.Is(err, quorumlock.ErrLevel):
		return codeFailed, "finish the upgrade of all instances first"
	case errors.Is(err, quorumlock.ErrOverloaded):
		return codeFailed, "nothing was done; try again"
	}
	return codeFailed, ""
}

// inFlags speaks of flags, where the library speaks of fields.
func inFlags(message string) string { return fieldFlags.Replace(message) }

var fieldFlags = strings.NewReplacer(
	"RestoreOptions.Cluster has to name it", "--cluster-from has to name it",
	"RestoreOptions.TokenFloor", "--token-floor", "RecoverOptions.TokenFloor", "--token-floor", "RecoverOptions.GiveUp", "--give-up",
	"or AllowPlaintext if", "or --allow-plaintext if",
	"Config.Addr", "--addr", "Config.Advertise", "--advertise", "Config.AllowPlaintext", "--allow-plaintext", "Config.ClusterID", "--cluster-id", "Config.Cluster", "--cluster",
	"Config.Dir", "--dir", "Config.Expect", "--expect", "Config.Founders", "--founders", "Config.GossipKeys", "--gossip-keys", "Config.Join", "--join", "Config.Name", "--name",
	"Config.SnapshotKeys", "--key-file", "Config.Timing", "--timing", "Config.Voters", "--voters", "Config.Zone", "--zone",
)

// oneLine joins the lines of errors.Join.
func oneLine(s string) string { return strings.Join(strings.Split(strings.TrimSpace(s), "\n"), "; ") }
