package transport

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// The preamble is a header of the same shape in every protocol version (so that a refusal of a version can be told), then a body
// of length-prefixed strings:
//
//	dialer:   magic[3] version kind   len16 { cluster, from, to, clusterID, advertise }
//	acceptor: magic[3] version status len16 { serverID, clusterID, advertise }
//
// Both sides read exactly these bytes and none further: what follows belongs to the owner of the stream.
const (
	preambleMagic   = "QLK"
	preambleVersion = 1
	preambleHeader  = len(preambleMagic) + 4
	maxPreambleBody = 4096
	maxNameLen      = 512 // of each string, so that an encoded body always fits
)

const statusAccepted = 0 // in the place of a RefusedCode

var errMalformedPreamble = errors.New("malformed preamble")

// hello is what a dialer tells.
type hello struct {
	version   byte
	kind      Kind
	cluster   string
	from      string
	to        string // empty: whoever answers
	clusterID string
	advertise string
}

// answer is what an acceptor tells, also when it refuses.
type answer struct {
	version   byte
	status    byte
	serverID  string
	clusterID string
	advertise string
}

func (h hello) encode() []byte {
	return encodePreamble(h.version, byte(h.kind), h.cluster, h.from, h.to, h.clusterID, h.advertise)
}

func (a answer) encode() []byte {
	return encodePreamble(a.version, a.status, a.serverID, a.clusterID, a.advertise)
}

func encodePreamble(version, mark byte, fields ...string) []byte {
	b := make([]byte, 0, 256)
	b = append(b, preambleMagic...)
	b = append(b, version, mark, 0, 0)
	for _, f := range fields {
		b = binary.BigEndian.AppendUint16(b, uint16(len(f)))
		b = append(b, f...)
	}
	binary.BigEndian.PutUint16(b[preambleHeader-2:], uint16(len(b)-preambleHeader))
	return b
}

// readHello leaves the strings of another version empty: only that version knows what they mean.
func readHello(r io.Reader) (hello, error) {
	var h hello
	version, mark, body, err := readPreamble(r)
	if err != nil {
		return hello{}, err
	}
	h.version, h.kind = version, Kind(mark)
	if version != preambleVersion {
		return h, nil
	}
	if err := splitFields(body, &h.cluster, &h.from, &h.to, &h.clusterID, &h.advertise); err != nil {
		return hello{}, err
	}
	return h, nil
}

func readAnswer(r io.Reader) (answer, error) {
	var a answer
	version, mark, body, err := readPreamble(r)
	if err != nil {
		return answer{}, err
	}
	a.version, a.status = version, mark
	if version != preambleVersion {
		return a, nil
	}
	if err := splitFields(body, &a.serverID, &a.clusterID, &a.advertise); err != nil {
		return answer{}, err
	}
	return a, nil
}

func readPreamble(r io.Reader) (version, mark byte, body []byte, err error) {
	var head [preambleHeader]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, 0, nil, fmt.Errorf("read preamble: %w", err)
	}
	if string(head[:len(preambleMagic)]) != preambleMagic {
		return 0, 0, nil, fmt.Errorf("%w: not this protocol", errMalformedPreamble)
	}
	n := int(binary.BigEndian.Uint16(head[preambleHeader-2:]))
	if n > maxPreambleBody {
		return 0, 0, nil, fmt.Errorf("%w: body of %d bytes", errMalformedPreamble, n)
	}
	body = make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return 0, 0, nil, fmt.Errorf("read preamble: %w", err)
	}
	return head[len(preambleMagic)], head[len(preambleMagic)+1], body, nil
}

func splitFields(body []byte, fields ...*string) error {
	for _, f := range fields {
		if len(body) < 2 {
			return fmt.Errorf("%w: short body", errMalformedPreamble)
		}
		n := int(binary.BigEndian.Uint16(body))
		body = body[2:]
		if n > len(body) || n > maxNameLen {
			return fmt.Errorf("%w: string of %d bytes", errMalformedPreamble, n)
		}
		*f, body = string(body[:n]), body[n:]
	}
	if len(body) > 0 {
		return fmt.Errorf("%w: %d bytes left over", errMalformedPreamble, len(body))
	}
	return nil
}
