package store

import (
	"errors"
	"slices"
)

// An incarnation is one start of a member in its data directory, named by a nonce. A later start may end the former one's sessions at once if it can prove that
// the former process is over. The proof is the file lock: who gets it knows that nobody else has it, and the former process kept it to its end. What remains to
// be shown is that both locks are on one file, of one kernel. So each incarnation writes its mark into the very file that it has locked, and the next one
// compares the place in it with its own. docs/design/store.md has the argument whole.

// place tells one lock file from all others. While a file is open, nowhere else is a file with the same place: a kernel gives away neither the inode number of a
// file in use nor the device number of a file system in use. So a file at a known place is the known file, or nobody has that one open any more.
type place struct {
	Boot   string `json:"boot"` // one boot of one kernel; random
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
}

// mark is what an incarnation leaves in its lock file before anybody hears of it.
type mark struct {
	Incarnation string `json:"incarnation"`
	// Former are incarnations before it that it had found over and whose end nobody has confirmed yet, oldest first. They had their locks on this very file too:
	// each mark takes them over from one with its own place, and from no other. So what proves its Incarnation over proves them over.
	Former []string `json:"former,omitempty"`
	place
}

// maxFormers bounds a mark: with it, the lock file's content fits in one page, which the end of a process does not cut in two.
const maxFormers = 64

// ErrNoFormer is Store.Former's answer where no mark of a former start is found, as in a new directory: there is nothing to prove.
var ErrNoFormer = errors.New("there was no former start here, or it did not ask for it")

// Why a former process cannot be shown to be over.
var (
	errNotAsked = errors.New("this start did not ask for it")
	errNoDir    = errors.New("without a data directory nothing is known of a former process")
	errRemade   = errors.New("the lock file was made anew")
	errRebooted = errors.New("the machine was rebooted since the former process began, or the directory comes from another machine")
	errCopied   = errors.New("the directory was copied, or its lock file made anew")
)

// proves returns nil if whoever has locked the file at here knows that the process that left m is over.
func (m *mark) proves(here place) error {
	switch {
	case m == nil || m.Incarnation == "":
		return ErrNoFormer
	case m.Boot != here.Boot:
		return errRebooted
	case m.place != here:
		return errCopied
	default:
		return nil
	}
}

// incarnation is a start of a member, and what it knows about the starts before.
type incarnation struct {
	nonce   string // "" if no later start could prove anything about this one, or none was asked for
	formers []string
	dropped string       // one that formers had no room for
	why     error        // set if formers is empty
	begin   func() error // writes the mark; nil if nonce is empty
	settle  func() error // writes it again, without formers; nil likewise
}

func noIncarnation(why error) incarnation { return incarnation{why: why} }

// newIncarnation judges the mark that was found, nil for none, before its own takes that one's place. Nothing is written before begin.
func newIncarnation(found *mark, here place, leave func(mark) error) incarnation {
	i := incarnation{nonce: newID(), why: found.proves(here)}
	if i.why == nil {
		i.formers, i.dropped = found.chain()
	}
	own := mark{Incarnation: i.nonce, place: here}
	i.settle = func() error { return leave(own) }
	withFormers := own
	withFormers.Former = i.formers
	i.begin = func() error { return leave(withFormers) }
	return i
}

// chain lists what is over if m's incarnation is, oldest first. Whoever reaches the cluster ends all formers at once. So where they pile up, only the first ones have been
// there for long enough to hold anything, and it is the latest that is dropped.
func (m *mark) chain() (formers []string, dropped string) {
	if len(m.Former) >= maxFormers {
		return slices.Clone(m.Former[:maxFormers]), m.Incarnation
	}
	return append(slices.Clone(m.Former), m.Incarnation), ""
}

// Incarnation returns the nonce of this start: 128 random bits in hexadecimal. It is "" if Options.Incarnation was not set, and where no later start
// could prove that this one is over; Former's error then says what is in the way.
func (s *Store) Incarnation() string { return s.medium.incarnation.nonce }

// Formers returns the nonces of the starts before this one, oldest first, that are proven over (their processes have ended, or have closed their Stores) and whose end has not
// been confirmed: the latest start that asked for a nonce, and those before it that it did not live to call FormersEnded for. Everything that they
// opened under those nonces may be ended at once; what they sent before they ended may still be on its way. Otherwise there is none and why says what is missing.
func (s *Store) Formers() (nonces []string, why error) {
	return slices.Clone(s.medium.incarnation.formers), s.medium.incarnation.why
}

// FormersEnded notes that everything that Formers opened has been ended, so that no later start is told of them. Without it, or if it fails, a later one is told once more.
func (s *Store) FormersEnded() error {
	if settle := s.medium.incarnation.settle; settle != nil && len(s.medium.incarnation.formers) > 0 {
		return settle()
	}
	return nil
}
