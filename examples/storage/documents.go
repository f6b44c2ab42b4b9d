//go:build unix

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/quorumlock/quorumlock/fence/httpfence"
)

// documents is the storage service as its clients see it. A grant in the context goes along, by httpfence.Transport.
type documents struct {
	base string
	http *http.Client
}

const (
	requestBound    = 10 * time.Second
	idleConnections = 16
)

func newDocuments(base string) *documents {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = idleConnections
	return &documents{base: base, http: &http.Client{Transport: &httpfence.Transport{Base: transport}}}
}

func (d *documents) close() { d.http.CloseIdleConnections() }

func (s section) path() string {
	if s == fenced {
		return documentsPath
	}
	return unfencedPath
}

// claim makes the service refuse lower tokens from now on. The errors of a refusal, here and of put, are those of
// fence.Checker.
func (d *documents) claim(ctx context.Context, name string) error {
	_, err := d.call(ctx, http.MethodPost, claimsPath, name, nil)
	return err
}

// get gives a document; one that does not exist is empty.
func (d *documents) get(ctx context.Context, in section, name string) ([]byte, error) {
	return d.call(ctx, http.MethodGet, in.path(), name, nil)
}

func (d *documents) put(ctx context.Context, in section, name string, content []byte) error {
	_, err := d.call(ctx, http.MethodPut, in.path(), name, content)
	return err
}

// statusError is an answer that is neither success nor one of the fence's refusals.
type statusError struct {
	status int
	text   string
}

func (e *statusError) Error() string { return fmt.Sprintf("status %d: %.200s", e.status, e.text) }

func (d *documents) call(ctx context.Context, method, path, name string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestBound) // a Timeout of http.Client would hide fence.ErrUnknownOutcome
	defer cancel()
	target := d.base + path + "?" + url.Values{"name": {name}}.Encode()
	req, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	resp, err := d.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if err := httpfence.Error(resp); err != nil {
		return nil, fmt.Errorf("%s %s: status %d: %w", method, path, resp.StatusCode, err)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	case method == http.MethodGet && resp.StatusCode == http.StatusNotFound:
		return nil, nil
	case resp.StatusCode >= 300:
		return nil, fmt.Errorf("%s %s: %w", method, path, &statusError{resp.StatusCode, string(text)})
	}
	return text, nil
}
