//go:build !wasip1

package store

import "errors"

// judge finds out about the former incarnation. It comes before the first write to the lock file.
func (d *dataDir) judge(opt Options) incarnation {
	if !opt.Incarnation {
		return noIncarnation(errNotAsked)
	}
	here, err := d.lock.place(opt.placeOf)
	if err != nil {
		return noIncarnation(err)
	}
	found, why := d.lock.found()
	if errors.Is(why, errRemade) && !d.meta.Complete {
		why = ErrNoFormer // it was made for the first time
	}
	i := newIncarnation(found, here, d.leave)
	if why != nil {
		i.why = why
	}
	return i
}

func (d *dataDir) leave(m mark) error {
	if err := d.lock.leave(m); err != nil {
		return &DirError{Dir: d.path, Err: err}
	}
	return nil
}
