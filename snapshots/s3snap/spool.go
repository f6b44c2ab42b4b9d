package s3snap

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"hash"
	"io"
	"os"
)

// spool is a temporary file, hashed while it is written.
type spool struct {
	ctx  context.Context
	file *os.File
	sum  hash.Hash
	size int64
}

func newSpool(ctx context.Context, dir string) (*spool, error) {
	f, err := os.CreateTemp(dir, "quorumlock-snapshot-*")
	if err != nil {
		return nil, err
	}
	return &spool{ctx: ctx, file: f, sum: sha256.New()}, nil
}

func (s *spool) Write(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := s.file.Write(p)
	s.sum.Write(p[:n])
	s.size += int64(n)
	return n, err
}

// rewind makes the file ready to be read, and gives its checksum as S3 wants it.
func (s *spool) rewind() (sum string, size int64, err error) {
	if err := s.ctx.Err(); err != nil {
		return "", 0, err
	}
	_, err = s.file.Seek(0, io.SeekStart)
	return base64.StdEncoding.EncodeToString(s.sum.Sum(nil)), s.size, err
}

func (s *spool) close() {
	_ = s.file.Close()
	_ = os.Remove(s.file.Name())
}
