package s3fence

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/quorumlock/quorumlock/fence"
)

const (
	// envelopeVersion is the one this package reads and writes. A later one may hold what a rewrite by this package would lose,
	// so it is refused.
	envelopeVersion = 1
	// maxEnvelope bounds the first line. The longest one of version 1 has under 3 KiB.
	maxEnvelope = 4 << 10
	// remembered is how many writes before the last one an object names. A writer that got no answer finds its own write among
	// them.
	remembered = 16
	// maxNonce bounds what another writer may use as a nonce. Ours have 26 characters.
	maxNonce = 64
)

// envelope is an object's first line. Its nonce makes every body unlike every other: an ETag is a hash of the content on most
// stores, so without one the same payload written again would bring back an ETag that an earlier reader holds, and If-Match
// would let that reader write.
type envelope struct {
	Version int         `json:"quorumlock"`
	Cluster string      `json:"cluster"`
	Lock    string      `json:"lock"`
	Token   fence.Token `json:"token"`
	State   state       `json:"state"`
	Size    int         `json:"size"`             // of the payload, in bytes
	Nonce   string      `json:"nonce"`            // of the write that made this object
	Before  []string    `json:"before,omitempty"` // nonces of the writes before it, oldest first
}

type state string

const (
	present state = "present"
	absent  state = "absent" // claimed but not written, or deleted: the payload is empty
)

// mark is how every envelope begins.
var mark = []byte(`{"quorumlock":`)

func (e *envelope) grant() fence.Grant {
	return fence.Grant{Cluster: e.Cluster, Lock: e.Lock, Token: e.Token}
}

// seal gives the object's body.
func (e *envelope) seal(payload []byte) ([]byte, error) {
	e.Version, e.Size = envelopeVersion, len(payload)
	var out bytes.Buffer
	line := json.NewEncoder(&out) // ends the line with a newline
	line.SetEscapeHTML(false)     // six bytes instead of one, for nothing
	if err := line.Encode(e); err != nil {
		return nil, err
	}
	out.Write(payload)
	return out.Bytes(), nil
}

// unseal splits an object's body. The payload shares its memory.
func unseal(resource string, body []byte) (*envelope, []byte, error) {
	if !bytes.HasPrefix(body, mark) {
		return nil, nil, &EnvelopeError{Resource: resource, Problem: "it was written past the fence", Unfenced: true}
	}
	line, _, ended := bytes.Cut(body[:min(len(body), maxEnvelope)], []byte{'\n'})
	if !ended {
		problem := fmt.Sprintf("the first line has no end within %d bytes", maxEnvelope)
		return nil, nil, &EnvelopeError{Resource: resource, Problem: problem}
	}
	payload := body[len(line)+1:]
	e, err := decode(line)
	if err == nil {
		err = e.check(len(payload))
	}
	if err != nil {
		return nil, nil, &EnvelopeError{Resource: resource, Problem: err.Error(), Err: err}
	}
	return e, payload, nil
}

// decode looks at the version first: of a later one it can say no more.
func decode(line []byte) (*envelope, error) {
	var v struct {
		Version int `json:"quorumlock"`
	}
	if err := json.Unmarshal(line, &v); err != nil {
		return nil, err
	}
	if v.Version != envelopeVersion {
		return nil, fmt.Errorf("its version is %d, this program knows %d", v.Version, envelopeVersion)
	}
	e := new(envelope)
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields() // a rewrite would lose them
	return e, d.Decode(e)
}

func (e *envelope) check(payload int) error {
	if err := e.grant().Check(); err != nil {
		return err
	}
	switch {
	case e.State != present && e.State != absent:
		return fmt.Errorf("its state is %.40q", e.State)
	case e.Size != payload:
		return fmt.Errorf("the payload has %d bytes instead of %d", payload, e.Size)
	case e.State == absent && payload != 0:
		return fmt.Errorf("it is absent and has %d bytes", payload)
	case len(e.Before) > remembered:
		return fmt.Errorf("it names %d writes, %d are allowed", len(e.Before), remembered)
	}
	for _, nonce := range e.chain() {
		if nonce == "" || len(nonce) > maxNonce {
			return fmt.Errorf("a nonce has %d bytes", len(nonce))
		}
	}
	return nil
}

// chain is the nonces of the writes that made the object what it is, oldest first, as far as it names them.
func (e *envelope) chain() []string {
	return append(slices.Clone(e.Before), e.Nonce)
}

// next is what the envelope that follows e names as written before it.
func (e *envelope) next() []string {
	chain := e.chain()
	return chain[max(0, len(chain)-remembered):]
}
