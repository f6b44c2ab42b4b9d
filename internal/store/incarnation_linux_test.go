package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// provableDir is on a file system on which locks prove something even where the tests run in a container, on overlayfs.
func provableDir(t *testing.T) (Options, bool) {
	t.Helper()
	if magicOf(t, bootIDFile) != unix.PROC_SUPER_MAGIC {
		return Options{}, false // another file was laid over it
	}
	dir := t.TempDir()
	if magicOf(t, dir) == unix.OVERLAYFS_SUPER_MAGIC {
		var err error
		if dir, err = os.MkdirTemp("/dev/shm", "quorumlock-test-*"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
	}
	return Options{Dir: dir, Cluster: "c", Incarnation: true}, true
}

func mustProvableDir(t *testing.T) Options {
	t.Helper()
	opt, ok := provableDir(t)
	if !ok {
		t.Skip("this container has a boot id of its own")
	}
	return opt
}

func magicOf(t *testing.T, path string) uint32 {
	t.Helper()
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		t.Fatal(err)
	}
	return uint32(st.Type)
}

// another is a place that differs from the real one as change says.
func another(change func(*place)) func(*os.File) (place, error) {
	return func(f *os.File) (place, error) {
		p, err := kernelPlace(f)
		change(&p)
		return p, err
	}
}

func TestRealPlaces(t *testing.T) {
	for _, root := range []string{mustProvableDir(t).Dir, "/dev/shm"} {
		dir, err := os.MkdirTemp(root, "quorumlock-test-*")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		opt := Options{Dir: dir, Cluster: "c", Incarnation: true}
		s := mustOpen(t, opt)
		first := wantFormer(t, s, "", ErrNoFormer)
		mustClose(t, s)
		wantFormer(t, mustOpen(t, opt), first, nil)
	}
}

// inUse opens with a context that has ended already: one attempt.
func inUse(t *testing.T, opt Options) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := Open(ctx, opt)
	if e := asError[*InUseError](t, err); e.Dir != opt.Dir {
		t.Errorf("kept out by the lock of %s only", e.Dir)
	}
}

// TestFormerProcess: the lock goes with the process, however it ends, and not before.
func TestFormerProcess(t *testing.T) {
	opt := mustProvableDir(t)
	first := startKeeper(t, opt.Dir)
	inUse(t, opt) // a live duplicate, whose store the garbage collector would have taken if it could
	if err := first.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var status unix.WaitStatus
	if _, err := unix.Wait4(first.cmd.Process.Pid, &status, unix.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("the process is not stopped: %v, %v", status, err)
	}
	inUse(t, opt)
	first.kill()

	second := startKeeper(t, opt.Dir)
	if second.formers != first.nonce || len(first.nonce) != 32 {
		t.Fatalf("the former process was %q, found %q", first.nonce, second.formers)
	}
	second.kill() // before it has ended anything of the first one's
	third := startKeeper(t, opt.Dir)
	if third.formers != first.nonce+" "+second.nonce {
		t.Fatalf("the former processes were %q and %q, found %q", first.nonce, second.nonce, third.formers)
	}
	third.kill()
	s := mustOpen(t, opt)
	wantFormers(t, s, first.nonce, second.nonce, third.nonce)
	if err := s.FormersEnded(); err != nil {
		t.Fatal(err)
	}
	nonce := s.Incarnation()
	mustClose(t, s)
	wantFormer(t, mustOpen(t, opt), nonce, nil)
}

// TestAFailedStoreKeepsTheLock: the node's own sessions live on through other members until it is closed.
func TestAFailedStoreKeepsTheLock(t *testing.T) {
	opt := mustProvableDir(t)
	s := mustOpen(t, opt)
	mustAppend(t, s, 1, 2*cachedEntries)
	if err := os.Truncate(filepath.Join(opt.Dir, boltName), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := getLog(s, 1); err == nil || s.Failed() == nil {
		t.Fatalf("the fault did not bite: %v", err)
	}
	inUse(t, opt)
}

// TestCopiedDir: a copy proves nothing, be the original's process alive or not, and the original goes on proving.
func TestCopiedDir(t *testing.T) {
	opt := mustProvableDir(t)
	s := mustOpen(t, opt)
	first := wantFormer(t, s, "", ErrNoFormer)
	copyOf := func() Options {
		c := opt
		c.Dir = mustProvableDir(t).Dir
		if err := os.CopyFS(c.Dir, os.DirFS(opt.Dir)); err != nil {
			t.Fatal(err)
		}
		return c
	}
	alive := copyOf()
	nonce := wantFormer(t, mustOpen(t, alive), "", errCopied)
	mustClose(t, s)
	over := copyOf()
	wantFormer(t, mustOpen(t, over), "", errCopied)

	moved := opt
	moved.Dir = filepath.Join(mustProvableDir(t).Dir, "moved")
	if err := os.Rename(opt.Dir, moved.Dir); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, moved)
	if second := wantFormer(t, s, first, nil); second == nonce {
		t.Error("one nonce for two starts")
	}
}

// TestBakedImage: a directory that ran while an image was built, and starts from it.
func TestBakedImage(t *testing.T) {
	for name, change := range map[string]func(*place){
		"on another machine":    func(p *place) { p.Boot = "e5a6b1a2-0000-4000-8000-000000000000" },
		"on the same machine":   func(p *place) { p.Device++ },
		"in the same container": func(p *place) { p.Inode++ },
	} {
		t.Run(name, func(t *testing.T) {
			opt := mustProvableDir(t)
			opt.placeOf = another(change)
			mustClose(t, mustOpen(t, opt))
			opt.placeOf = nil
			why := errCopied
			if strings.Contains(name, "another") {
				why = errRebooted
			}
			s := mustOpen(t, opt)
			nonce := wantFormer(t, s, "", why)
			mustClose(t, s)
			wantFormer(t, mustOpen(t, opt), nonce, nil)
		})
	}
}

func TestRemadeLockFile(t *testing.T) {
	path := func(opt Options) string { return filepath.Join(opt.Dir, lockName) }
	content := func(t *testing.T, opt Options) []byte {
		b, err := os.ReadFile(path(opt))
		if err != nil || len(b) == 0 {
			t.Fatalf("lock file %q, %v", b, err)
		}
		return b
	}
	t.Run("empty", func(t *testing.T) {
		opt := mustProvableDir(t)
		mustClose(t, mustOpen(t, opt))
		if err := os.Remove(path(opt)); err != nil {
			t.Fatal(err)
		}
		wantFormer(t, mustOpen(t, opt), "", errRemade)
	})
	t.Run("with the former content", func(t *testing.T) {
		opt := mustProvableDir(t)
		mustClose(t, mustOpen(t, opt))
		fresh := path(opt) + ".fresh" // made while the other one exists: two files of one place would be no fault once nobody has the first
		if err := errors.Join(os.WriteFile(fresh, content(t, opt), 0o600), os.Rename(fresh, path(opt))); err != nil {
			t.Fatal(err)
		}
		wantFormer(t, mustOpen(t, opt), "", errCopied)
	})
	t.Run("under a live process", func(t *testing.T) {
		opt := mustProvableDir(t)
		s := mustOpen(t, opt)
		mine, err := lockPlace(opt.Dir)
		if err != nil {
			t.Fatal(err)
		}
		b := content(t, opt)
		for range 200 { // as long as it is open its place is not given away, though the file has no name any more
			if err := errors.Join(os.Remove(path(opt)), os.WriteFile(path(opt), b, 0o600)); err != nil {
				t.Fatal(err)
			}
			if got, err := lockPlace(opt.Dir); err != nil || got == mine {
				t.Fatalf("the new file is at %+v, the former at %+v: %v", got, mine, err)
			}
		}
		lock, err := lockDir(context.Background(), opt.Dir) // the new file's lock is free
		if err != nil {
			t.Fatal(err)
		}
		here, err := lock.place(nil)
		if err != nil {
			t.Fatal(err)
		}
		found, err := lock.found()
		if err != nil || found == nil || found.Incarnation != s.Incarnation() || !errors.Is(found.proves(here), errCopied) {
			t.Errorf("found %+v at %+v: %v", found, here, err)
		}
		if err := lock.release(); err != nil {
			t.Fatal(err)
		}
	})
}

// lockPlace is where the file lies that has the lock file's name now.
func lockPlace(dir string) (place, error) {
	f, err := os.Open(filepath.Join(dir, lockName))
	if err != nil {
		return place{}, err
	}
	defer f.Close()
	return kernelPlace(f)
}

// TestDamagedMark: whatever stands in the lock file, the directory opens, and nothing is proven that was not left there whole.
func TestDamagedMark(t *testing.T) {
	for name, damage := range map[string]func([]byte) []byte{
		"emptied":      func([]byte) []byte { return nil },
		"cut":          func(b []byte) []byte { return b[:len(b)-2] },
		"two of them":  func(b []byte) []byte { return append(b, b...) },
		"no JSON":      func([]byte) []byte { return []byte("x") },
		"only zeros":   func(b []byte) []byte { return make([]byte, len(b)) },
		"very long":    func([]byte) []byte { return []byte(strings.Repeat(" ", 1<<16)) },
		"not a mark":   func([]byte) []byte { return []byte(`{"mark":7}`) },
		"empty mark":   func([]byte) []byte { return []byte(`{"mark":{}}`) },
		"odd formers":  func([]byte) []byte { return []byte(`{"mark":{"incarnation":"n","former":[7]}}`) },
		"without mark": func([]byte) []byte { return []byte(`{"pid":1,"host":"h","started":"2026-01-02T03:04:05Z"}`) },
	} {
		t.Run(name, func(t *testing.T) {
			opt := mustProvableDir(t)
			mustClose(t, mustOpen(t, opt))
			path := filepath.Join(opt.Dir, lockName)
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, damage(content), 0o600); err != nil {
				t.Fatal(err)
			}
			s := mustOpen(t, opt)
			if formers, why := s.Formers(); formers != nil || why == nil {
				t.Errorf("formers %q, %v", formers, why)
			}
			nonce := s.Incarnation()
			mustClose(t, s)
			wantFormer(t, mustOpen(t, opt), nonce, nil)
		})
	}
}

// TestFileSystems: where locks prove nothing, the start has no nonce, so that nothing is promised to the next one either, and no mark is left.
func TestFileSystems(t *testing.T) {
	for name, magic := range map[string]uint32{
		"nfs": unix.NFS_SUPER_MAGIC, "SMB": unix.SMB2_SUPER_MAGIC, "SMB share": unix.CIFS_SUPER_MAGIC, "fuse": unix.FUSE_SUPER_MAGIC, "9p": unix.V9FS_MAGIC,
		"ceph": unix.CEPH_SUPER_MAGIC, "overlayfs": unix.OVERLAYFS_SUPER_MAGIC, "ocfs2": unix.OCFS2_SUPER_MAGIC, "afs": unix.AFS_FS_MAGIC, "0x12345": 0x12345,
	} {
		t.Run(name, func(t *testing.T) {
			opt := mustProvableDir(t)
			real := opt
			opt.placeOf = kernel{bootID: readBootID, fsMagic: func(*os.File) (uint32, error) { return magic, nil }}.place
			mustClose(t, mustOpen(t, opt))
			s := mustOpen(t, opt)
			formers, why := s.Formers()
			if s.Incarnation() != "" || formers != nil || why == nil || !strings.Contains(why.Error(), name) {
				t.Errorf("nonce %q, formers %q, %v", s.Incarnation(), formers, why)
			}
			mustClose(t, s)
			wantFormer(t, mustOpen(t, real), "", ErrNoFormer)
		})
	}
	for _, magic := range []uint32{0xef53, 0x58465342, 0x9123683e, 0xf2f52010, 0x01021994, 0x2fc12fc1} {
		here, err := kernel{bootID: func() (string, error) { return "b", nil }, fsMagic: func(*os.File) (uint32, error) { return magic, nil }}.place(os.Stdin)
		if err != nil || here.Boot != "b" {
			t.Errorf("%#x: %+v, %v", magic, here, err)
		}
	}
}

// TestTheKernelDoesNotSay: no answer is none to rely on.
func TestTheKernelDoesNotSay(t *testing.T) {
	ext4 := func(*os.File) (uint32, error) { return unix.EXT4_SUPER_MAGIC, nil }
	boot := func() (string, error) { return "b", nil }
	for name, k := range map[string]kernel{
		"boot":        {bootID: func() (string, error) { return "", errDisk }, fsMagic: ext4},
		"file system": {bootID: boot, fsMagic: func(*os.File) (uint32, error) { return 0, errDisk }},
	} {
		opt := mustProvableDir(t)
		mustClose(t, mustOpen(t, opt))
		opt.placeOf = k.place
		s := mustOpen(t, opt)
		if formers, why := s.Formers(); s.Incarnation() != "" || formers != nil || !errors.Is(why, errDisk) {
			t.Errorf("%s: nonce %q, formers %q, %v", name, s.Incarnation(), formers, why)
		}
	}
	closed, err := os.Create(filepath.Join(t.TempDir(), "closed"))
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	if p, err := (kernel{bootID: boot, fsMagic: ext4}).place(closed); err == nil {
		t.Errorf("a closed file lies at %+v", p)
	}
}

// TestBootID: a file laid over the kernel's own is not believed.
func TestBootID(t *testing.T) {
	mustProvableDir(t)
	id, err := readBootID()
	if again, err2 := readBootID(); err != nil || err2 != nil || id != again {
		t.Fatalf("%q and %q: %v, %v", id, again, err, err2)
	}
	fake := filepath.Join(t.TempDir(), "boot_id")
	if err := os.WriteFile(fake, []byte(id+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{fake, filepath.Join(t.TempDir(), "none"), "/proc/sys/kernel/ostype", "/proc/self/task"} {
		if got, err := readBootIDFrom(path); err == nil {
			t.Errorf("%s: %q", path, got)
		}
	}
}
