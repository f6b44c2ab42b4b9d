package quorumlocktest

import (
	"context"
	"fmt"
)

const port = ":7000"

// serviceName is what JoinByName lets every instance know.
const serviceName = "service"

func address(host string) string { return host + port }

func (c *Cluster) hostOf(in *instance) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return in.host
}

// Move gives instance i, which must be down, another machine with an address that nobody has had before, as a pod gets
// one that is scheduled anew. Its disk and its clocks go along.
func (c *Cluster) Move(i int) {
	c.t.Helper()
	in := c.instance(i)
	if c.running(in) != nil {
		c.t.Fatalf("instance %d is up", i)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	in.moves++
	in.host = fmt.Sprintf("host-%d-%d", i, in.moves)
}

// JoinByName makes the instances find each other by one DNS name and nothing else, as by that of a headless service: it
// stands for the hosts of the instances that are up at the moment it is resolved.
func JoinByName() Option { return func(o *options) { o.byName = true } }

// seedsOf is what an instance is told to join.
func (c *Cluster) seedsOf(in *instance, all []*instance) []string {
	if c.opt.byName {
		return []string{address(serviceName)}
	}
	var seeds []string
	for _, other := range all {
		if other != in {
			seeds = append(seeds, address(c.hostOf(other)))
		}
	}
	return seeds
}

// resolve is the network's DNS.
func (c *Cluster) resolve(_ context.Context, name string) ([]string, error) {
	if name != serviceName {
		return []string{name}, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var hosts []string
	for _, in := range c.instances {
		if in.node != nil {
			hosts = append(hosts, in.host)
		}
	}
	if len(hosts) == 0 {
		return nil, fmt.Errorf("no instance is behind %q", name)
	}
	return hosts, nil
}
