// Package history records what a simulated run showed, from the side of the callers and from the side of the log, and judges it
// when the run is over.
//
// The callers' side is calls with the instants between which they ran, and instants at which a hold said that it was held. The
// log's side is the events that observers saw, each with a revision, in the order in which the cluster committed them. All instants
// are readings of the one fake clock of the run, so they can be compared whichever instance they come from.
//
// The order of what happened is therefore not searched for: it stands in the log, and the checks ask whether the log obeys the rules of
// the lock table, and whether every caller's experience fits between the instants at which the log can have been written. Only reads
// (a refused TryLock, an Inspect) leave a choice, which a linearizability checker decides.
//
//	h := history.New(time.Now())
//	o := h.Observer("node 1")            // for each subscription to a node's Watch with an empty prefix
//	h.Asks(claim)                        // before each call that claims; the claim's ID is its note
//	h.Acquired(call, claim.ID, token)    // for each call that ended
//	h.Held(claim.ID, time.Now())         // whenever a hold said that it was held
//	report := h.Check(time.Minute)       // afterwards
//
// What a run has to keep to, so that there is no false alarm:
//   - One history is one cluster. A cluster founded anew begins another one.
//   - Every claim has a note that no other claim of the run has, and Asks was told of it before it was made.
//   - A call's Start is taken before it begins and its End after it returned; observers that record each event when they get it.
//   - Observers are there before the first claim, and at the end of the run one of them has seen everything.
//   - Ended is called before Unlock is, or before a hold is given away, or when it reported its loss; not for ErrUnsure, from which a hold may recover.
//     It is left out where the hold ends at some moment of a call that may also come to nothing, as a hand over does; HandsOver is called before that.
//   - ForcedNow is called before a forced release at once of a hold that may be draining (see there).
//
// The package has no goroutine and takes no reading of a clock but to bound Check. It compiles wherever the simulator does.
package history
