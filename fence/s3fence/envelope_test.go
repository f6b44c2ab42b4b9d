package s3fence

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/fence"
)

// What is stored is part of the contract with programs in other languages, and with this one's later versions.
func TestEnvelopeAsStored(t *testing.T) {
	e := &envelope{Cluster: "c", Lock: `job "<x>" ü`, Token: 1<<53 - 1, State: present, Nonce: "N2", Before: []string{"N0", "N1"}}
	body, err := e.seal([]byte("the payload\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"quorumlock":1,"cluster":"c",` +
		`"lock":"job \"<x>\" ü","token":"9007199254740991","state":"present","size":12,"nonce":"N2","before":["N0","N1"]}` + "\nthe payload\n"
	if string(body) != want {
		t.Errorf("stored:\n%s\nwant:\n%s", body, want)
	}
	back, payload, err := unseal("r", body)
	if err != nil || back.grant() != e.grant() || string(payload) != "the payload\n" {
		t.Errorf("read back: %+v, %q, %v", back, payload, err)
	}
}

func TestEnvelopeOfTheGreatestLength(t *testing.T) {
	long := strings.Repeat(`"`, fence.MaxName) // twice as long in JSON
	e := &envelope{
		Cluster: strings.Repeat(`\`, fence.MaxCluster), Lock: long, Token: 1<<63 - 1, State: present,
		Nonce: strings.Repeat("N", maxNonce),
	}
	for range remembered {
		e.Before = append(e.Before, e.Nonce)
	}
	body, err := e.seal(make([]byte, 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	if line := bytes.IndexByte(body, '\n') + 1; line > maxEnvelope {
		t.Errorf("the envelope has %d bytes", line)
	}
	if _, _, err := unseal("r", body); err != nil {
		t.Error(err)
	}
}

func TestUnreadableObjects(t *testing.T) {
	good := `{"quorumlock":1,"cluster":"c","lock":"l","token":"1","state":"present","size":1,"nonce":"N"}` + "\n"
	if _, _, err := unseal("r", []byte(good+"x")); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		body string
		want error
	}{
		"empty":                 {"", ErrUnfenced},
		"text":                  {"text", ErrUnfenced},
		"other JSON":            {`{"cluster":"c"}` + "\n", ErrUnfenced},
		"later version":         {strings.Replace(good, ":1", ":2", 1) + "x", ErrEnvelope},
		"no end":                {strings.TrimSuffix(good, "\n"), ErrEnvelope},
		"endless":               {string(mark) + strings.Repeat("1", 2*maxEnvelope), ErrEnvelope},
		"cut payload":           {good, ErrEnvelope},
		"longer payload":        {good + "xy", ErrEnvelope},
		"unknown field":         {strings.Replace(good, `"lock"`, `"more":1,"lock"`, 1) + "x", ErrEnvelope},
		"token as a number":     {strings.Replace(good, `"1"`, `1`, 1) + "x", ErrEnvelope},
		"token zero":            {strings.Replace(good, `"1"`, `"0"`, 1) + "x", ErrEnvelope},
		"no lock":               {strings.Replace(good, `"lock":"l",`, ``, 1) + "x", ErrEnvelope},
		"unknown state":         {strings.Replace(good, `present`, `presents`, 1) + "x", ErrEnvelope},
		"absent with a payload": {strings.Replace(good, `present`, `absent`, 1) + "x", ErrEnvelope},
		"no nonce":              {strings.Replace(good, `"N"`, `""`, 1) + "x", ErrEnvelope},
		"too many before":       {strings.Replace(good, `"N"`, `"N","before":["a"`+strings.Repeat(`,"a"`, remembered)+`]`, 1) + "x", ErrEnvelope},
		"not JSON":              {string(mark) + "1\n", ErrEnvelope},
	} {
		_, _, err := unseal("r", []byte(test.body))
		var bad *EnvelopeError
		if !errors.Is(err, test.want) || !errors.As(err, &bad) || bad.Resource != "r" {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
	}
}

// No bytes in a bucket may panic, and what is read is written again without loss.
func FuzzUnseal(f *testing.F) {
	f.Add([]byte(`{"quorumlock":1,"cluster":"c","lock":"l","token":"1","state":"present","size":1,"nonce":"N","before":["M"]}` + "\nx"))
	f.Add([]byte(`{"quorumlock":1`))
	f.Fuzz(func(t *testing.T, body []byte) {
		e, payload, err := unseal("r", body)
		if err != nil {
			return
		}
		again, err := e.seal(payload)
		if err != nil {
			t.Fatal(err)
		}
		e2, payload2, err := unseal("r", again)
		if err != nil || fmt.Sprint(e) != fmt.Sprint(e2) || !bytes.Equal(payload, payload2) {
			t.Errorf("%q became %q: %v", body, again, err)
		}
	})
}
