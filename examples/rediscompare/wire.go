//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

const (
	messageBytes = 64 << 10
	postBound    = time.Minute // of one message; beyond any pause of a worker, whose message it must not end
)

// handle serves one kind of message, a JSON value by POST, answered by another.
func handle[Q, A any](mux *http.ServeMux, path string, answer func(Q) (A, error)) {
	mux.HandleFunc("POST "+path, func(rw http.ResponseWriter, r *http.Request) {
		var q Q
		if err := json.NewDecoder(http.MaxBytesReader(rw, r.Body, messageBytes)).Decode(&q); err != nil {
			http.Error(rw, err.Error(), http.StatusBadRequest)
			return
		}
		a, err := answer(q)
		if err != nil {
			http.Error(rw, err.Error(), http.StatusConflict)
			return
		}
		_ = json.NewEncoder(rw).Encode(a) // the client that has gone is nobody to tell
	})
}

// post sends a message and reads the answer into a.
func post(ctx context.Context, url string, q, a any) error {
	ctx, cancel := context.WithTimeout(ctx, postBound)
	defer cancel()
	body, err := json.Marshal(q)
	if err != nil {
		return fmt.Errorf("post: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("post: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("post: %w", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, messageBytes))
	if err != nil {
		return fmt.Errorf("post: read answer: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("post %s: %s: %s", req.URL.Path, resp.Status, bytes.TrimSpace(text))
	}
	if err := json.Unmarshal(text, a); err != nil {
		return fmt.Errorf("post %s: %w", req.URL.Path, err)
	}
	return nil
}
