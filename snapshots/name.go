package snapshots

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Name is what the name of a snapshot says about it:
//
//	orders.0001780000000000123.00000000000000004711.6f1c...e2.qlsnap
//
// label, counter, log index and id of the cluster. The names of one label sort as the states follow each other: within a
// cluster counter and index only rise, and the counter of one that was founded or restored later begins above the former
// one's. Equal states have equal names, whoever writes them.
type Name struct {
	Label     string // of the cluster's name; see Label
	ClusterID string
	Counter   int64  // every token granted in this state and before is at most this one
	Index     uint64 // log index of the state
}

const (
	suffix        = ".qlsnap"
	counterDigits = 19
	indexDigits   = 20
	maxLabel      = 128
)

// Label is how a cluster's name stands in the names of its snapshots: as it is, if CheckName accepts it, and otherwise as
// a '~' and the hexadecimal beginning of its SHA-256.
func Label(cluster string) string {
	if len(cluster) <= maxLabel && cluster != "" && cluster[0] != '~' && CheckName(cluster) == nil {
		return cluster
	}
	sum := sha256.Sum256([]byte(cluster))
	return "~" + hex.EncodeToString(sum[:16])
}

// String is the object's name.
func (n Name) String() string {
	return fmt.Sprintf("%s.%0*d.%0*d.%s%s", n.Label, counterDigits, n.Counter, indexDigits, n.Index, n.ClusterID, suffix)
}

// ParseName is the inverse of String; false if s is not the name of a snapshot.
func ParseName(s string) (Name, bool) {
	rest, ok := strings.CutSuffix(s, suffix)
	if !ok || CheckName(s) != nil {
		return Name{}, false
	}
	parts := strings.Split(rest, ".")
	if len(parts) < 4 {
		return Name{}, false
	}
	own := parts[len(parts)-3:]
	n := Name{Label: strings.Join(parts[:len(parts)-3], "."), ClusterID: own[2]}
	var errC, errI error
	n.Counter, errC = strconv.ParseInt(own[0], 10, 64)
	n.Index, errI = strconv.ParseUint(own[1], 10, 64)
	// One name has one form, so that nothing else sorts among them.
	if errC != nil || errI != nil || n.Label == "" || n.ClusterID == "" || n.Counter < 0 || n.String() != s {
		return Name{}, false
	}
	return n, true
}

// Compare orders names by counter, and then by index: the later state is the greater one.
func (n Name) Compare(other Name) int {
	return cmp.Or(cmp.Compare(n.Counter, other.Counter), cmp.Compare(n.Index, other.Index), cmp.Compare(n.ClusterID, other.ClusterID))
}

// Named is an object of which the name is known to be that of a snapshot.
type Named struct {
	Object
	Name Name
}

// Of lists the snapshots of all clusters of a name, the newest one last. Other objects in the store are passed over.
// There may be several ids among them: that of a cluster that was lost, and that of the one restored in its place.
func Of(ctx context.Context, s Store, cluster string) ([]Named, error) {
	label := Label(cluster)
	objects, err := s.List(ctx, label+".")
	if err != nil {
		return nil, fmt.Errorf("list snapshots: %w", err)
	}
	var found []Named
	for _, o := range objects {
		if n, ok := ParseName(o.Name); ok && n.Label == label {
			found = append(found, Named{o, n})
		}
	}
	slices.SortFunc(found, func(a, b Named) int { return a.Name.Compare(b.Name) })
	return found, nil
}
