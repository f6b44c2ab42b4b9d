// Package hub hands the events of the lock table to many subscribers, without ever waiting for one of them.
//
// A subscriber sees the events under its prefix in revision order, without gap and without duplicate, or it is told in so
// many words that it fell behind (watch.ErrFellBehind). Node.WatchFrom is its face for users.
//
//	sub := hub.Subscribe("jobs/", 0)
//	defer sub.Close()
//	for {
//		event, err := sub.Next(ctx)
//		if err != nil {
//			return err
//		}
//		fmt.Println(event.Rev, event.Kind, event.Name, event.Token)
//	}
package hub

import "errors"

var (
	// ErrClosed: the subscription was closed by its owner, or the hub without a cause.
	ErrClosed = errors.New("watch closed")
	// ErrOutOfOrder: Publish was given a revision that does not follow the one before. It is an internal error of the caller.
	ErrOutOfOrder = errors.New("events out of revision order")
)
