package quorumlocktest

// Reboot ends instance i as Crash does, by a restart of its machine.
func (c *Cluster) Reboot(i int) {
	c.t.Helper()
	c.Crash(i)
	if d := c.instances[i].disk; d != nil {
		d.Reboot()
	}
}

// CopyDisk gives instance i, which must be down, a copy of its disk, as from an image or a backup of the directory.
func (c *Cluster) CopyDisk(i int) {
	c.t.Helper()
	in := c.instances[i]
	if in.node != nil || in.disk == nil {
		c.t.Fatalf("instance %d is up, or has no disk", i)
	}
	in.disk = in.disk.Copy()
}

// RemakeLock deletes the lock file of the disk and makes it anew.
func (d *Disk) RemakeLock() { d.disk.RemakeLock() }
