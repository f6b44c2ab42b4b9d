// Package grantlist is the text form in which grants travel in HTTP headers and gRPC metadata: a list of
//
//	token=1796157310875344;cluster=5f0c9d;lock=job-x
//
// separated by commas, printable ASCII whatever the names hold. The parts of a grant come in any order, each once; cluster and
// lock are percent-encoded, as encodeURIComponent and its likes do it. It is one list and not one field for each part, so that
// no proxy that drops, merges or reorders fields can pair the token of one lock with the name of another.
package grantlist

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/quorumlock/quorumlock/fence"
)

const (
	// MaxGrants is the most grants in one list: as many as a MultiMutex has names.
	MaxGrants = 64
	// MaxLength is the longest list, in bytes; several lines count together. 64 locks with names of 150 bytes fit, and so do
	// the limits of most servers and proxies.
	MaxLength = 16 << 10
)

const (
	keyToken   = "token"
	keyCluster = "cluster"
	keyLock    = "lock"
)

// Encode gives the list of grants. A grant that is not valid, none at all, two of one lock, or more than the limits is a
// *fence.FieldError.
func Encode(grants []fence.Grant) (string, error) {
	if len(grants) == 0 {
		return "", fence.ErrNoGrant
	}
	if err := checkSet("grants", grants); err != nil {
		return "", err
	}
	var b strings.Builder
	for i, g := range grants {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(keyToken + "=" + g.Token.String())
		b.WriteString(";" + keyCluster + "=" + url.PathEscape(g.Cluster))
		b.WriteString(";" + keyLock + "=" + url.PathEscape(g.Lock))
	}
	if b.Len() > MaxLength {
		problem := fmt.Sprintf("have %d bytes, %d are allowed: pick those that are needed by fence.For", b.Len(), MaxLength)
		return "", &fence.FieldError{Field: "grants", Problem: problem}
	}
	return b.String(), nil
}

// Decode reads what came under a field's name: one line or several, which make one list. Whatever Encode does not write is a
// *fence.FieldError about field, except for white space and the order and the escaping within a grant.
func Decode(field string, lines []string) ([]fence.Grant, error) {
	length := 0
	for _, line := range lines {
		length += len(line)
	}
	if length > MaxLength {
		return nil, &fence.FieldError{Field: field, Problem: fmt.Sprintf("has %d bytes, %d are allowed", length, MaxLength)}
	}
	var grants []fence.Grant
	for _, line := range lines {
		for element := range strings.SplitSeq(line, ",") {
			if len(grants) == MaxGrants {
				return nil, &fence.FieldError{Field: field, Problem: fmt.Sprintf("has more than the %d grants that are allowed", MaxGrants)}
			}
			g, err := decodeGrant(field, element)
			if err != nil {
				return nil, err
			}
			grants = append(grants, g)
		}
	}
	if err := checkSet(field, grants); err != nil {
		return nil, err
	}
	return grants, nil
}

// checkSet refuses two grants of one lock: which of the two tokens counts would be anybody's guess.
func checkSet(field string, grants []fence.Grant) error {
	if len(grants) > MaxGrants {
		return &fence.FieldError{Field: field, Problem: fmt.Sprintf("are %d, %d are allowed", len(grants), MaxGrants)}
	}
	locks := make(map[string]bool, len(grants))
	for _, g := range grants {
		if err := g.Check(); err != nil {
			return err
		}
		if locks[g.Lock] {
			return &fence.FieldError{Field: field, Value: g.Lock, Problem: "comes with two grants of one lock"}
		}
		locks[g.Lock] = true
	}
	return nil
}

func decodeGrant(field, element string) (fence.Grant, error) {
	bad := func(problem string) (fence.Grant, error) {
		return fence.Grant{}, &fence.FieldError{Field: field, Value: element, Problem: problem}
	}
	parts := make(map[string]string, 3)
	for part := range strings.SplitSeq(element, ";") {
		key, value, found := strings.Cut(trim(part), "=")
		if key != keyToken && key != keyCluster && key != keyLock || !found {
			return bad("must be token=...;cluster=...;lock=... and nothing else") // what is not understood may be meant to restrict
		}
		if _, twice := parts[key]; twice {
			return bad("has " + key + " twice")
		}
		if !printable(value) {
			return bad("has " + key + " not percent-encoded")
		}
		plain, err := url.PathUnescape(value)
		if err != nil {
			return bad("has " + key + " with a bad percent-encoding")
		}
		parts[key] = plain
	}
	if len(parts) < 3 {
		return bad("must have each of token, cluster and lock")
	}
	token, err := fence.ParseToken(parts[keyToken])
	if err != nil {
		return bad("has a token that is not a positive decimal number")
	}
	return fence.Grant{Cluster: parts[keyCluster], Lock: parts[keyLock], Token: token}, nil
}

// trim takes off the optional white space of HTTP, which is narrower than Unicode's.
func trim(s string) string { return strings.Trim(s, " \t") }

func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}
