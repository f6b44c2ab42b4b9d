package locktable

import "fmt"

// checkQueues holds a state made from records against the rules of the queue: those that hold a name come first and can hold it together, and
// no waiting claim could have been granted. One pass over all queues; only a waiting claim right behind the holders has to be looked for in its other queues.
func (s *state) checkQueues() error {
	var at nameCheck
	var err error
	s.queue.Scan(func(e queueEntry) bool {
		if e.name != at.name {
			at = nameCheck{name: e.name}
		}
		err = at.next(s, e.claim)
		return err == nil
	})
	if err != nil {
		return err
	}
	return s.checkLimits()
}

// nameCheck is the pass over the queue of one name.
type nameCheck struct {
	name    string
	first   *claim
	use     use
	waiting bool
}

func (n *nameCheck) next(s *state, c *claim) error {
	if n.first == nil {
		n.first = c
		n.use, _ = s.uses.Get(n.name)
	}
	switch {
	case (c.mode == Permits) != (n.first.mode == Permits):
		return fmt.Errorf("claim %d: a lock and a semaphore of one name", c.rev)
	case c.grant != 0 && c != n.first && (n.waiting || !c.sharesWith(n.first)):
		return fmt.Errorf("claim %d: place in its queues and token disagree", c.rev)
	case c.grant == 0 && c.mode == Permits && c.count > n.use.limit:
		return fmt.Errorf("claim %d: waits for more permits than there are", c.rev)
	}
	if c.grant == 0 && !n.waiting {
		n.waiting = true
		if s.grantable(c, n.name, n.use) {
			return fmt.Errorf("claim %d: waits for what is free", c.rev)
		}
	}
	return nil
}

// sharesWith says whether a hold can be beside the first one of its name.
func (c *claim) sharesWith(first *claim) bool {
	return c.mode == Permits || c.mode == Shared && first.mode == Shared && c.token == first.token
}

func (s *state) checkLimits() error {
	var err error
	s.uses.Scan(func(name string, u use) bool {
		if u.mode == Permits && u.limit == 0 {
			err = fmt.Errorf("semaphore %q has no limit", name)
		}
		return err == nil
	})
	return err
}
