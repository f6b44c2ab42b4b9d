package quorumlock

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/quorumlock/quorumlock/internal/locktable"
)

// ForceOptions say how and why a lock is released by force.
type ForceOptions struct {
	// Actor is who does it and Reason why, for the audit record and for the holder. Both are required, at most 1 KiB
	// each.
	Actor  string
	Reason string
	// Now releases at once. The old holder may then still believe that it holds the lock while the next one does, so
	// only fenced resources stay safe. Without it the hold is drained: its deadline is frozen, its holder told, and the
	// lock passes on after one TTL, when the old holder has stopped by its own clock.
	Now bool
	// Session limits it to the holds of one session. It is needed only where several share a token, as the readers of
	// an RWMutex do: without it all of them are meant.
	Session SessionID
}

// ForceRelease takes a lock from its holder. It names the token that the caller saw (Inspect shows it): if another one
// holds by now, it is refused with a *LockedError that shows the present holder, and with an ErrUnlocked if nobody
// does. Without Now it returns when the drain has begun; calling again is harmless. ctx bounds the round trip; more
// than 1,024 readers of one session are released in several, each of which stands by itself. If the
// answer of a release that worked is lost on the way, the retry finds another holder or none and says so: inspect the
// lock after such an error.
func (n *Node) ForceRelease(ctx context.Context, name string, t Token, opt ForceOptions) error {
	const op = "force release"
	if err := n.usable(ctx, op); err != nil {
		return err
	}
	if err := checkForce(name, t, opt); err != nil {
		return err
	}
	cmd := &locktable.Command{
		Op: locktable.OpForce, Names: []string{name}, Token: locktable.Token(t), Now: opt.Now, Note: opt.Reason, Actor: opt.Actor,
		Session: locktable.SessionID(opt.Session),
	}
	res, err := n.force(ctx, op, name, cmd)
	if err != nil {
		return err
	}
	switch res.Code {
	case locktable.CodeReleased, locktable.CodeOK, locktable.CodeDraining:
		return nil
	case locktable.CodeNotHeld:
		return &WaitError{Op: op, Name: name, Waiting: "nobody holds it", Err: ErrUnlocked}
	case locktable.CodeMismatch:
		e := &LockedError{Name: name, Queue: res.Waiters}
		if res.Blocker != nil {
			e.Holder = holderOf(res.Blocker)
			e.Since = e.Holder.Since
		}
		return fmt.Errorf("force release: token %v does not hold: %w", t, e)
	}
	return refusal(op, name, &res)
}

// force asks until all holds that are meant have been released, or have begun to drain. Of more than 1,024 of one session the cluster does not take them all at once, since the session
// must have room to be told: it hears of each part before the next one. A part stands whatever becomes of the others, and asking again goes on where this ended.
func (n *Node) force(ctx context.Context, op, name string, cmd *locktable.Command) (locktable.Result, error) {
	begun := false
	for {
		round := *cmd
		res, err := n.ask(ctx, op, name, &round)
		waits := err == nil && (res.More || begun && res.Code == locktable.CodeOverloaded)
		gone := begun && (res.Code == locktable.CodeNotHeld || res.Code == locktable.CodeMismatch) // the rest has ended by itself
		switch {
		case err != nil && !(begun && errors.Is(err, ErrOverloaded)):
			return res, err
		case err == nil && gone:
			return locktable.Result{Code: locktable.CodeOK}, nil
		case err == nil && !waits:
			return res, nil
		}
		begun = true
		if pause(ctx, persistPause); ctx.Err() != nil {
			return res, &WaitError{Op: op, Name: name, Waiting: "released in part; the holder must hear of that before the rest", Err: ended(ctx)}
		}
	}
}

func checkForce(name string, t Token, opt ForceOptions) error {
	if err := locktable.CheckName(name); err != nil {
		return fieldError(err, name)
	}
	if opt.Session < 0 {
		return &FieldError{Field: "ForceOptions.Session", Value: int64(opt.Session), Problem: "must not be negative"}
	}
	if t <= 0 {
		return &FieldError{Field: "token", Value: int64(t), Problem: "must be positive"}
	}
	return errors.Join(checkWords("ForceOptions.Actor", opt.Actor), checkWords("ForceOptions.Reason", opt.Reason))
}

func checkWords(field, words string) error {
	switch {
	case words == "":
		return &FieldError{Field: field, Problem: "must not be empty"}
	case len(words) > locktable.MaxNoteLen:
		return &FieldError{Field: field, Value: words, Problem: fmt.Sprintf("has %d bytes; %d is the most", len(words), locktable.MaxNoteLen)}
	case !utf8.ValidString(words) || containsControl(words):
		return &FieldError{Field: field, Value: words, Problem: "must be UTF-8 without control characters"}
	}
	return nil
}
