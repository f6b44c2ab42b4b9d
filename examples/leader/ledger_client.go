package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock"
)

// appendLimit is how long one write may take.
const appendLimit = 2 * time.Second

// ledgerClient writes to a ledger by HTTP.
type ledgerClient struct {
	base     string
	instance string
	http     *http.Client
}

func newLedgerClient(base, instance string) *ledgerClient {
	return &ledgerClient{base: strings.TrimSuffix(base, "/"), instance: instance, http: &http.Client{Timeout: appendLimit}}
}

// append writes the seq-th entry of the term with token t. A *StaleTokenError says that the ledger has accepted a higher
// one. It does not retry: after any other error nobody knows whether the write took place, and a new term begins a new
// count.
func (c *ledgerClient) append(ctx context.Context, t quorumlock.Token, seq int) error {
	form := url.Values{fieldInstance: {c.instance}, fieldSeq: {strconv.Itoa(seq)}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+"/append", strings.NewReader(form.Encode()))
	if err != nil {
		return fmt.Errorf("append: %w", err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set(tokenHeader, t.String())
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("append: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	if err != nil {
		return fmt.Errorf("append: read answer: %w", err)
	}
	switch resp.StatusCode {
	case http.StatusOK:
		return nil
	case http.StatusPreconditionFailed:
		return staleToken(t, body)
	}
	return fmt.Errorf("append: %s: %s", resp.Status, strings.TrimSpace(string(body)))
}

func staleToken(t quorumlock.Token, body []byte) error {
	var answer struct{ Highest quorumlock.Token }
	if err := json.Unmarshal(body, &answer); err != nil {
		return fmt.Errorf("append: refused, with an answer that cannot be read: %w", err)
	}
	return &quorumlock.StaleTokenError{Resource: "ledger", Token: t, Highest: answer.Highest}
}
