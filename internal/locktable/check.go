package locktable

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// CommandError says which field of a command breaks which rule.
type CommandError struct {
	Field  string
	Reason string
}

func (e *CommandError) Error() string { return fmt.Sprintf("command field %s: %s", e.Field, e.Reason) }

// fields is a set of Command fields.
type fields uint32

const (
	fSession fields = 1 << iota
	fSeq
	fFloor
	fNames
	fMode
	fTry
	fNow
	fToken
	fNote
	fActor
	fNode
	fNodeName
	fTTL
	fSince
	fRenewIndex
	fTerm
	fRev
	fClusterID
	fLevel
	fOf
	fCount
	fLimit
	fValue
	fDelay
	fFrom
	fSecret
	fAfter
	fIncarnation
	fFormer
	fBarring
	fAct
)

var fieldNames = [...]string{
	"Session", "Seq", "Floor", "Names", "Mode", "Try", "Now", "Token", "Note", "Actor", "Node", "NodeName", "TTL", "Since",
	"RenewIndex", "Term", "Rev", "ClusterID", "Level", "Of", "Count", "Limit", "Value", "Delay", "From", "Secret", "After", "Incarnation",
	"Former", "Barring", "Act",
}

// shape is which fields an operation must and may set; all others must be zero, so that one request has one encoding and a field
// that a later version gives a meaning to cannot already be in use.
type shape struct{ must, may fields }

var shapes = [...]shape{
	OpFound:   {must: fClusterID | fRev | fTTL},
	OpOpen:    {must: fNode | fTTL, may: fNodeName | fIncarnation},
	OpRenew:   {must: fSession, may: fSince},
	OpClose:   {must: fSession, may: fNow},
	OpExpire:  {must: fSession, may: fRenewIndex | fTerm},
	OpClaim:   {must: fSession | fSeq | fNames, may: fFloor | fMode | fTry | fNote | fValue | fDelay | fCount | fLimit},
	OpCancel:  {must: fSession | fSeq, may: fFloor | fNow},
	OpUnlock:  {must: fSession | fSeq | fOf | fToken, may: fFloor | fBarring},
	OpForce:   {must: fNames | fToken, may: fSession | fNow | fNote | fActor},
	OpDrained: {must: fRev, may: fRenewIndex | fTerm},
	OpInspect: {must: fNames},
	OpBarrier: {},
	OpLevel:   {must: fLevel},

	OpDowngrade: {must: fSession | fSeq | fOf | fToken, may: fFloor | fNote},
	OpProclaim:  {must: fSession | fSeq | fOf | fToken, may: fFloor | fValue},
	OpHandOver:  {must: fSession | fSeq | fOf | fToken | fRev, may: fFloor},
	OpResize:    {must: fSession | fSeq | fNames, may: fFloor | fLimit | fFormer},
	OpOffer:     {must: fSession | fSeq | fOf | fToken | fSecret, may: fFloor},
	OpAccept:    {must: fSession | fSeq | fFrom | fOf | fToken | fSecret, may: fFloor | fNote},
	OpList:      {must: fCount, may: fNames | fAfter},
	OpRestart:   {must: fNode | fIncarnation | fRenewIndex},

	OpSessions: {must: fCount, may: fRev},
	OpAudit:    {must: fCount, may: fRev},
	OpEnd:      {must: fSession | fNote | fActor, may: fNow},
	OpAct:      {must: fAct | fNote | fActor, may: fNode | fNodeName},
}

// maxFirstRev bounds the counter at founding, so that it cannot overflow however long the cluster lives.
const maxFirstRev = 1 << 62

// Check is every rule about a command that needs no state. Apply answers CodeMalformed to a command that breaks one; callers check
// before they propose. The error is a *CommandError.
func Check(c *Command) error {
	if err := check(c); err != nil {
		return err
	}
	return nil
}

func check(c *Command) *CommandError {
	if c == nil || c.Op == OpNone || int(c.Op) >= len(shapes) {
		return &CommandError{"Op", "unknown operation"}
	}
	if err := checkShape(c, shapes[c.Op]); err != nil {
		return err
	}
	if err := checkNumbers(c); err != nil {
		return err
	}
	if err := checkTexts(c); err != nil {
		return err
	}
	if err := checkNames(c); err != nil {
		return err
	}
	return checkSharing(c)
}

func checkShape(c *Command, s shape) *CommandError {
	set := c.fields()
	if missing := s.must &^ set; missing != 0 {
		return &CommandError{missing.first(), "missing"}
	}
	if extra := set &^ (s.must | s.may); extra != 0 {
		return &CommandError{extra.first(), "does not belong to this operation"}
	}
	return nil
}

func (f fields) first() string {
	for i, name := range fieldNames {
		if f&(1<<i) != 0 {
			return name
		}
	}
	return ""
}

// fields is the set of fields that are not zero.
func (c *Command) fields() fields {
	var set fields
	for i, isSet := range [...]bool{
		c.Session != 0, c.Seq != 0, c.Floor != 0, len(c.Names) != 0, c.Mode != 0, c.Try, c.Now, c.Token != 0, c.Note != "",
		c.Actor != "", c.Node != "", c.NodeName != "", c.TTL != 0, c.Since != 0, c.RenewIndex != 0, c.Term != 0, c.Rev != 0,
		c.ClusterID != "", c.Level != 0, c.Of != 0, c.Count != 0, c.Limit != 0, c.Value != "", c.Delay != 0, c.From != 0, c.Secret != "",
		c.After != "", c.Incarnation != "", c.Former != 0, c.Barring, c.Act != 0,
	} {
		if isSet {
			set |= 1 << i
		}
	}
	return set
}

func checkNumbers(c *Command) *CommandError {
	switch {
	case c.Session < 0:
		return &CommandError{"Session", "negative"}
	case c.Token < 0:
		return &CommandError{"Token", "negative"}
	case c.Since < 0:
		return &CommandError{"Since", "negative"}
	case c.Rev < 0:
		return &CommandError{"Rev", "negative"}
	case c.Rev > maxFirstRev:
		return &CommandError{"Rev", "too high"}
	case c.TTL != 0 && c.TTL < MinTTL:
		return &CommandError{"TTL", fmt.Sprintf("below %v", MinTTL)}
	case c.Mode > Permits:
		return &CommandError{"Mode", "unknown mode"}
	case c.From < 0:
		return &CommandError{"From", "negative"}
	case c.Limit > MaxPermits:
		return &CommandError{"Limit", fmt.Sprintf("above %d", MaxPermits)}
	case c.Former > MaxPermits:
		return &CommandError{"Former", fmt.Sprintf("above %d", MaxPermits)}
	case c.Former != 0 && c.Former == c.Limit:
		return &CommandError{"Former", "not another limit"}
	case c.Former != 0 && c.Limit == 0:
		return &CommandError{"Former", "there is no limit that it could come before"}
	case c.Op == OpAct && (c.Act <= ActEnd || c.Act > lastAct):
		return &CommandError{"Act", "not one that is only recorded"}
	case c.Act.aboutDrains() && c.Node == "":
		return &CommandError{"Node", "missing"}
	case (c.Op == OpList || c.Op == OpSessions || c.Op == OpAudit) && c.Count > MaxList:
		return &CommandError{"Count", fmt.Sprintf("above %d", MaxList)}
	}
	return checkDelay(c.Delay)
}

func checkDelay(d time.Duration) *CommandError {
	if d < 0 || d > MaxDelay || d%time.Millisecond != 0 {
		return &CommandError{"Delay", fmt.Sprintf("not between 0 and %v in whole milliseconds", MaxDelay)}
	}
	return nil
}

// checkSharing is how the mode of a claim goes with its other fields.
func checkSharing(c *Command) *CommandError {
	switch {
	case c.Op != OpClaim:
		return nil
	case c.Mode != Exclusive && len(c.Names) != 1:
		return &CommandError{"Names", "only exclusive claims can have several names"}
	case c.Mode != Permits && c.Count != 0:
		return &CommandError{"Count", "does not belong to this mode"}
	case c.Mode != Permits && c.Limit != 0:
		return &CommandError{"Limit", "does not belong to this mode"}
	case c.Mode == Permits && (c.Count == 0 || c.Limit == 0):
		return &CommandError{"Count", "permits and their limit must be given"}
	case c.Count > c.Limit:
		return &CommandError{"Count", "more permits than there are"}
	}
	return nil
}

func checkTexts(c *Command) *CommandError {
	for _, t := range [...]struct {
		field, text string
		max         int
	}{
		{"Note", c.Note, MaxNoteLen}, {"Actor", c.Actor, MaxNoteLen},
		{"Node", c.Node, MaxNodeLen}, {"NodeName", c.NodeName, MaxNodeLen}, {"ClusterID", c.ClusterID, MaxNodeLen},
		{"Incarnation", c.Incarnation, MaxNodeLen}, {"Secret", c.Secret, MaxNodeLen}, {"After", c.After, MaxNameLen},
	} {
		if reason := checkText(t.text, t.max); reason != "" {
			return &CommandError{t.field, reason}
		}
	}
	if !checkValue(c.Value) {
		return &CommandError{"Value", fmt.Sprintf("not UTF-8 of at most %d bytes", MaxValueLen)}
	}
	return nil
}

// checkValue allows control characters: a value is for programs, and nothing prints it as it is.
func checkValue(v string) bool { return len(v) <= MaxValueLen && utf8.ValidString(v) }

// checkText is the reason why a text is refused, empty if it is not. Control characters are refused everywhere because all texts end
// up in logs and on terminals.
func checkText(s string, maxLen int) string {
	switch {
	case len(s) > maxLen:
		return fmt.Sprintf("longer than %d bytes", maxLen)
	case !utf8.ValidString(s):
		return "not valid UTF-8"
	case strings.ContainsFunc(s, unicode.IsControl):
		return "contains a control character"
	}
	return ""
}

func checkNames(c *Command) *CommandError {
	limit := 1
	if c.Op == OpClaim {
		limit = MaxNames
	}
	if len(c.Names) > limit {
		return &CommandError{"Names", fmt.Sprintf("%d names, at most %d allowed", len(c.Names), limit)}
	}
	return checkNameList(c.Names)
}

// checkNameList compares each pair of names: there are at most MaxNames, and most claims have one.
func checkNameList(names []string) *CommandError {
	for i, name := range names {
		if reason := checkName(name); reason != "" {
			return &CommandError{"Names", reason}
		}
		for _, other := range names[:i] {
			if name == other {
				return &CommandError{"Names", "the same name twice"}
			}
		}
	}
	return nil
}

func checkName(name string) string {
	if name == "" {
		return "empty name"
	}
	return checkText(name, MaxNameLen)
}

// CheckName is the rule for a lock name: 1 to 512 bytes of valid UTF-8 without control characters. The error is a *CommandError.
func CheckName(name string) error {
	if reason := checkName(name); reason != "" {
		return &CommandError{"Names", reason}
	}
	return nil
}
