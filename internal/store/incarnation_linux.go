package store

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

const bootIDFile = "/proc/sys/kernel/random/boot_id"

// kernelPlace is where the open file lies, if the kernel's word on that can be relied upon.
func kernelPlace(lock *os.File) (place, error) {
	return kernel{bootID: readBootID, fsMagic: fsMagic}.place(lock)
}

// kernel is what the operating system is asked.
type kernel struct {
	bootID  func() (string, error)
	fsMagic func(*os.File) (uint32, error)
}

func (k kernel) place(lock *os.File) (place, error) {
	magic, err := k.fsMagic(lock)
	if err != nil {
		return place{}, fmt.Errorf("the file system of the lock file is unknown: %w", err)
	}
	if !locksProve(magic) {
		return place{}, fmt.Errorf("the data directory is on %s: that a lock was got there does not prove that its former holder is over", fsName(magic))
	}
	boot, err := k.bootID()
	if err != nil {
		return place{}, fmt.Errorf("this boot of the machine cannot be told from others: %w", err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(lock.Fd()), &st); err != nil {
		return place{}, fmt.Errorf("the lock file cannot be told from others: %w", err)
	}
	return place{Boot: boot, Device: uint64(st.Dev), Inode: st.Ino}, nil // Dev has 32 bits on some machines
}

// readBootID insists on the kernel's own file. Some container managers lay one of their own over it, and what that one's content follows is theirs to say.
func readBootID() (string, error) { return readBootIDFrom(bootIDFile) }

func readBootIDFrom(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	magic, err := fsMagic(f)
	if err != nil {
		return "", err
	}
	if magic != unix.PROC_SUPER_MAGIC {
		return "", fmt.Errorf("%s is not the kernel's own", path)
	}
	content := make([]byte, 64)
	n, err := f.Read(content)
	if err != nil {
		return "", err
	}
	id := strings.TrimSpace(string(content[:n]))
	if len(id) != len("00000000-0000-0000-0000-000000000000") {
		return "", fmt.Errorf("%s holds %q", path, id)
	}
	return id, nil
}

func fsMagic(f *os.File) (uint32, error) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &st); err != nil {
		return 0, err
	}
	return uint32(st.Type), nil // its width and its sign differ between machines
}

const zfsSuperMagic = 0x2fc12fc1

// locksProve tells the file systems on which flock belongs to one kernel alone and ends with the holder only, and on which device and inode number name one
// file. What is not known to be one of them is not: the price is the wait for a TTL.
func locksProve(magic uint32) bool {
	switch magic {
	case unix.EXT4_SUPER_MAGIC, // ext2 and ext3 too
		unix.XFS_SUPER_MAGIC,
		unix.BTRFS_SUPER_MAGIC, // each subvolume and snapshot has a device number of its own
		unix.F2FS_SUPER_MAGIC,
		unix.TMPFS_MAGIC,
		zfsSuperMagic:
		return true
	default:
		return false
	}
}

// fsName is for the reason only.
func fsName(magic uint32) string {
	switch magic {
	case unix.NFS_SUPER_MAGIC:
		return "nfs"
	case unix.CIFS_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.SMB_SUPER_MAGIC:
		return "an SMB share"
	case unix.FUSE_SUPER_MAGIC:
		return "fuse"
	case unix.V9FS_MAGIC:
		return "9p"
	case unix.CEPH_SUPER_MAGIC:
		return "ceph"
	case unix.AFS_SUPER_MAGIC, unix.AFS_FS_MAGIC:
		return "afs"
	case unix.OCFS2_SUPER_MAGIC:
		return "ocfs2"
	case unix.OVERLAYFS_SUPER_MAGIC:
		return "overlayfs, as a container's own files are"
	default:
		return fmt.Sprintf("a file system of type %#x", magic)
	}
}
