package fence

import (
	"time"
)

// The environment variables by which a command that runs under a lock learns of its grant. They are part of the interface between `quorumlock run` and
// the commands it runs.
const (
	EnvCluster  = "QUORUMLOCK_CLUSTER"
	EnvLock     = "QUORUMLOCK_LOCK"
	EnvToken    = "QUORUMLOCK_TOKEN"
	EnvDeadline = "QUORUMLOCK_DEADLINE" // when the hold was to end unless renewed, as of the command's start: RFC 3339, UTC, for people
)

// Environ gives the variables of the grant in the form of os.Environ.
func (g Grant) Environ(deadline time.Time) []string {
	return []string{
		EnvCluster + "=" + g.Cluster,
		EnvLock + "=" + g.Lock,
		EnvToken + "=" + g.Token.String(),
		EnvDeadline + "=" + deadline.UTC().Format(time.RFC3339Nano),
	}
}

// FromEnviron reads the grant that a command was started under, by a function like os.LookupEnv. If no variable of a grant is set the error is ErrNoGrant, and
// a *FieldError if one is missing or bad.
func FromEnviron(lookup func(key string) (string, bool)) (Grant, error) {
	if lookup == nil {
		return Grant{}, &FieldError{Field: "lookup", Problem: "must not be nil"}
	}
	cluster, hasCluster := lookup(EnvCluster)
	lock, hasLock := lookup(EnvLock)
	text, hasToken := lookup(EnvToken)
	if !hasCluster && !hasLock && !hasToken {
		return Grant{}, ErrNoGrant
	}
	token, err := ParseToken(text)
	if err != nil {
		return Grant{}, &FieldError{Field: EnvToken, Value: text, Problem: "must be a positive decimal number", Err: err}
	}
	g := Grant{Cluster: cluster, Lock: lock, Token: token}
	return g, g.Check()
}
