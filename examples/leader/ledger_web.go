package main

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/fence/httpfence"
)

// ServeHTTP answers POST /append, and GET / with what the ledger has.
func (l *ledger) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/append" && r.Method == http.MethodPost:
		l.serveAppend(rw, r)
	case r.URL.Path == "/" && r.Method == http.MethodGet:
		v := l.view()
		refused := append([]refusal{}, v.refused...)
		writeJSON(rw, http.StatusOK, map[string]any{"terms": v.terms(), "refused": refused})
	default:
		http.NotFound(rw, r)
	}
}

const maxForm = 4 << 10

// serveAppend has httpfence judge the grant that comes with a write; the answer to a stale one is its work.
func (l *ledger) serveAppend(rw http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(rw, r.Body, maxForm)
	instance, text := r.PostFormValue(fieldInstance), r.PostFormValue(fieldSeq)
	seq, err := strconv.Atoi(text)
	if err != nil || instance == "" {
		problem := fmt.Sprintf("%s %q, %s %q: a name and a number are needed", fieldInstance, instance, fieldSeq, text)
		http.Error(rw, problem, http.StatusBadRequest)
		return
	}
	write := func(rw http.ResponseWriter, r *http.Request) { l.serveWrite(rw, r, instance, seq) }
	refused := func(_ *http.Request, err error) { l.note(err, instance, seq) }
	name := func(*http.Request) (string, error) { return resource, nil }
	httpfence.Handler(&l.guard, name, http.HandlerFunc(write), httpfence.OnError(refused)).ServeHTTP(rw, r)
}

// serveWrite adds what the guard has accepted.
func (l *ledger) serveWrite(rw http.ResponseWriter, r *http.Request, instance string, seq int) {
	grant, err := fence.FromContext(r.Context(), resource)
	if err != nil {
		httpfence.Fail(r, err)
		return
	}
	index, err := l.add(entry{Token: grant.Token, Instance: instance, Seq: seq})
	if err != nil {
		http.Error(rw, err.Error(), http.StatusConflict)
		return
	}
	writeJSON(rw, http.StatusOK, map[string]any{"index": index})
}
