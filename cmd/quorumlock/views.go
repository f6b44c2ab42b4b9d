package main

import (
	"strconv"
	"time"

	"github.com/quorumlock/quorumlock"
)

// What follows is the JSON of locks. Fields are never renamed; tokens, sessions and revisions are decimal strings, since floats would round them.

type lockView struct {
	Name    string       `json:"name"`
	State   string       `json:"state"` // free, held, draining, barred, offered; waiting if nobody holds it and somebody waits
	Holders []holderView `json:"holders"`
	Holding int          `json:"holding"` // all holders; of many only the first are listed
	Queue   []waiterView `json:"queue"`
	Waiting int          `json:"waiting"`
	Limit   int          `json:"limit,omitempty"`
	InUse   int          `json:"in_use,omitempty"`
	Index   uint64       `json:"index"`
	Rev     string       `json:"rev"`
	freshness
}

type holderView struct {
	Node     string     `json:"node"`
	ServerID string     `json:"server_id"`
	Session  string     `json:"session"`
	Token    string     `json:"token"` // of permits: no fencing token, but what release names
	Mode     string     `json:"mode"`
	Permits  int        `json:"permits,omitempty"`
	Since    *time.Time `json:"since"`
	Note     string     `json:"note,omitempty"`
	Value    string     `json:"value,omitempty"`
	Draining bool       `json:"draining,omitempty"`
	Barred   bool       `json:"barred,omitempty"`
	Offered  bool       `json:"offered,omitempty"`
}

type waiterView struct {
	Node     string     `json:"node"`
	ServerID string     `json:"server_id"`
	Session  string     `json:"session"`
	Mode     string     `json:"mode"`
	Permits  int        `json:"permits,omitempty"`
	Since    *time.Time `json:"since"`
	Note     string     `json:"note,omitempty"`
	Rev      string     `json:"rev"`
}

func viewLock(info quorumlock.LockInfo) lockView {
	v := lockView{
		Name: info.Name, State: stateOf(info), Holding: info.Holding, Waiting: info.Waiting, Limit: info.Limit, InUse: info.InUse,
		Index: info.Index, Rev: strconv.FormatInt(info.Rev, 10), freshness: freshnessOf(info.Local, info.Age),
		Holders: []holderView{}, Queue: []waiterView{},
	}
	for _, h := range info.Holders {
		v.Holders = append(v.Holders, holderView{
			Node: h.Node, ServerID: h.ServerID, Session: sessionText(h.Session), Token: h.Token.String(), Mode: h.Mode.String(), Permits: h.Permits,
			Since: stamp(h.Since), Note: h.Note, Value: h.Value, Draining: h.Draining, Barred: h.Barred, Offered: h.Offered,
		})
	}
	for _, w := range info.Queue {
		v.Queue = append(v.Queue, waiterView{
			Node: w.Node, ServerID: w.ServerID, Session: sessionText(w.Session), Mode: w.Mode.String(), Permits: w.Permits,
			Since: stamp(w.Since), Note: w.Note, Rev: strconv.FormatInt(w.Rev, 10),
		})
	}
	return v
}

func stateOf(info quorumlock.LockInfo) string {
	state := "free"
	switch {
	case info.Holding > 0:
		state = "held"
	case info.Waiting > 0:
		state = "waiting"
	}
	for _, h := range info.Holders {
		switch {
		case h.Draining:
			return "draining"
		case h.Barred:
			state = "barred"
		case h.Offered:
			state = "offered"
		}
	}
	return state
}

func sessionText(id quorumlock.SessionID) string { return strconv.FormatInt(int64(id), 10) }

// tokenText leaves the token of permits out, which is none.
func tokenText(t quorumlock.Token) string {
	if t == 0 {
		return ""
	}
	return t.String()
}
