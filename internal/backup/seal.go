package backup

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
)

const (
	// KeySize is that of an AES-256 key.
	KeySize = 32

	saltSize = 32
	sealed   = 16 // bytes that a chunk grows by
)

// KeyID tells which key is meant without telling it.
func KeyID(key []byte) string {
	sum := sha256.Sum256(append([]byte("quorumlock snapshot key id\n"), key...))
	return hex.EncodeToString(sum[:8])
}

func newSalt() []byte {
	salt := make([]byte, saltSize)
	_, _ = rand.Read(salt) // never fails
	return salt
}

// sealer encrypts, or decrypts, the chunks of one file. Each file has a key of its own, derived from the caller's, a random
// salt and the header: so a nonce is only a chunk's number, no two files share one, and a header that was changed opens
// nothing. The number and the mark of the last chunk are part of the nonce, which makes chunks that were swapped, left out or
// cut off at the end fail like changed ones.
type sealer struct {
	aead  cipher.AEAD
	chunk uint64
}

func newSealer(key []byte, h *Header) (*sealer, error) {
	header := sha256.Sum256(h.append(nil))
	own, err := hkdf.Key(sha256.New, key, h.Salt, "quorumlock snapshot 1\n"+string(header[:]), KeySize)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(own)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	return &sealer{aead: aead}, nil
}

func (s *sealer) nonce(last bool) []byte {
	nonce := make([]byte, 12)
	binary.BigEndian.PutUint64(nonce[3:], s.chunk)
	if last {
		nonce[11] = 1
	}
	s.chunk++
	return nonce
}

func (s *sealer) seal(dst, plain []byte, last bool) []byte {
	return s.aead.Seal(dst, s.nonce(last), plain, nil)
}

func (s *sealer) open(chunk []byte, last bool) ([]byte, error) {
	return s.aead.Open(chunk[:0], s.nonce(last), chunk, nil)
}
