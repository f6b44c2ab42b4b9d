package quorumlocktest

// Reboot ends instance i as Crash does, by a restart of its machine.
func (c *Cluster) Reboot(i int) {
	c.t.Helper()
	c.Crash(i)
	if d := c.diskOf(i); d != nil {
		d.Reboot()
	}
}

// CopyDisk gives instance i, which must be down, a copy of its disk, as from an image or a backup of the directory.
func (c *Cluster) CopyDisk(i int) {
	c.t.Helper()
	disk := c.diskOf(i)
	if c.running(c.instance(i)) != nil || disk == nil {
		c.t.Fatalf("instance %d is up, or has no disk", i)
	}
	c.insert(i, disk.Copy())
}

// Duplicate starts one more instance on a copy of the disk of instance i, which stays as it is, and returns its number:
// a live copy of a data directory. Instance i is one that should go on; the new one has the same server id and should
// fail.
func (c *Cluster) Duplicate(i int) int {
	c.t.Helper()
	disk := c.diskOf(i)
	if disk == nil {
		c.t.Fatalf("instance %d has no disk", i)
	}
	in := c.add()
	c.insert(in.index, disk.Copy())
	c.Start(in.index)
	return in.index
}

// RemakeLock deletes the lock file of the disk and makes it anew.
func (d *Disk) RemakeLock() { d.disk.RemakeLock() }
