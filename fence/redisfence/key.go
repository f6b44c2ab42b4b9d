package redisfence

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/quorumlock/quorumlock/fence"
)

// Tag is the hash tag, with its braces, that brings a key into the slot of a resource: Tag("shard-7") + ":state". It is the tag
// that the resource's name has as a Redis key, or else the name itself. So a resource that has the name of a key is in the slot
// of that key, and so are keys with the same tag. The exception is a name with a closing brace and no tag: such a name fits
// into no tag, and its hash stands in.
func Tag(resource string) string {
	tag := resource
	if _, rest, ok := strings.Cut(resource, "{"); ok {
		if inner, _, ok := strings.Cut(rest, "}"); ok && inner != "" {
			tag = inner
		}
	}
	if strings.Contains(tag, "}") {
		sum := sha256.Sum256([]byte(resource))
		tag = hex.EncodeToString(sum[:])
	}
	return "{" + tag + "}"
}

// key is that of the resource's fence.
func (f *Fence) key(resource string) string { return f.cfg.Prefix + Tag(resource) + resource }

// maxPrefix keeps keys short.
const maxPrefix = 128

func checkPrefix(prefix string) error {
	bad := func(problem string) error {
		return &fence.FieldError{Field: "Config.Prefix", Value: prefix, Problem: problem}
	}
	switch {
	case len(prefix) > maxPrefix:
		return bad(fmt.Sprintf("has %d bytes, %d are allowed", len(prefix), maxPrefix))
	case strings.ContainsAny(prefix, "{}"):
		return bad("has a brace, which would hide the hash tag")
	}
	return nil
}
