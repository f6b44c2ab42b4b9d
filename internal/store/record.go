//go:build !wasip1

package store

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"runtime"
)

// tempSuffix marks files not yet in place. raft's file snapshot store uses the same.
const tempSuffix = ".tmp"

// A record is a small file with one header line, "quorumlock KIND FORMAT CRC32C", and a body that the checksum covers together
// with kind and format.

func recordSum(kind string, format int, body []byte) uint32 {
	sum := crc32.Update(0, castagnoli, fmt.Appendf(nil, "%s %d\n", kind, format))
	return crc32.Update(sum, castagnoli, body)
}

// readRecord returns the format even of a record it cannot read further, because a newer one may look different below the header.
func readRecord(path, kind string) (format int, body []byte, err error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return 0, nil, err
	}
	header, body, ok := bytes.Cut(content, []byte("\n"))
	var foundKind string
	var sum uint32
	n, err := fmt.Sscanf(string(header), "quorumlock %s %d %x", &foundKind, &format, &sum)
	if n >= 2 && foundKind == kind && format > dirFormat {
		return format, nil, fmt.Errorf("%s has format %d", path, format)
	}
	if !ok || err != nil || foundKind != kind || sum != recordSum(kind, format, body) {
		return 0, nil, &CorruptError{What: path, Err: errChecksum}
	}
	return format, body, nil
}

// writeRecord replaces the file as a whole: after a crash at any point the old or the new content is there.
func writeRecord(path, kind string, format int, body []byte) error {
	content := fmt.Appendf(nil, "quorumlock %s %d %08x\n%s", kind, format, recordSum(kind, format, body), body)
	temp := path + tempSuffix
	if err := writeSynced(temp, content); err != nil {
		return err
	}
	if err := os.Rename(temp, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func writeSynced(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// syncDir makes renames in a directory durable. Windows has no such call and needs none.
func syncDir(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
