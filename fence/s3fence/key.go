package s3fence

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/quorumlock/quorumlock/fence"
)

// maxKey is S3's own limit, in bytes.
const maxKey = 1024

// Key is the object's key for a resource: the prefix and the resource's name, if the name consists of letters, digits and
// !-_.*'()/ of ASCII and no segment between slashes is empty, "." or "..". Stores, proxies and file-backed gateways treat other
// keys in ways of their own (an object "a/../b" is "b" to some), so for any other name it is the prefix and "~" and the name's
// SHA-256 in hexadecimal.
func (b *Bucket) Key(resource string) string {
	if plain(resource) {
		return b.cfg.Prefix + resource
	}
	sum := sha256.Sum256([]byte(resource))
	return b.cfg.Prefix + "~" + hex.EncodeToString(sum[:])
}

func plain(name string) bool {
	for segment := range strings.SplitSeq(name, "/") {
		if segment == "" || segment == "." || segment == ".." || strings.ContainsFunc(segment, unsafeInKey) {
			return false
		}
	}
	return true
}

// unsafeInKey is true of what is not among the characters that S3 calls safe.
func unsafeInKey(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		return false
	}
	return !strings.ContainsRune("!-_.*'()", r)
}

func checkPrefix(prefix string) error {
	bad := func(problem string) error {
		return &fence.FieldError{Field: "Config.Prefix", Value: prefix, Problem: problem}
	}
	const room = maxKey - fence.MaxName
	switch {
	case len(prefix) > room:
		return bad(fmt.Sprintf("has %d bytes, %d are allowed", len(prefix), room))
	case strings.HasPrefix(prefix, "/"), strings.Contains(prefix, "//"):
		return bad("has an empty segment")
	case prefix != "" && !plain(strings.TrimSuffix(prefix, "/")):
		return bad("has characters or segments that stores treat in different ways")
	}
	return nil
}
