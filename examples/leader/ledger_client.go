package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/fence/httpfence"
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
	client := &http.Client{Transport: &httpfence.Transport{Required: true}}
	return &ledgerClient{base: strings.TrimSuffix(base, "/"), instance: instance, http: client}
}

// append writes the seq-th entry of the term whose grant ctx carries. A *StaleTokenError says that the ledger has accepted a higher
// token. It does not retry: after any other error nobody knows whether the write took place, and a new term begins a new
// count.
func (c *ledgerClient) append(ctx context.Context, seq int) error {
	ctx, cancel := context.WithTimeout(ctx, appendLimit) // a Timeout of http.Client would hide fence.ErrUnknownOutcome
	defer cancel()
	form := url.Values{fieldInstance: {c.instance}, fieldSeq: {strconv.Itoa(seq)}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+"/append", strings.NewReader(form.Encode()))
	if err != nil {
		return fmt.Errorf("append: %w", err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("append: %w", err)
	}
	defer resp.Body.Close()
	if err := httpfence.Error(resp); err != nil {
		return fmt.Errorf("append: %w", err)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	if err != nil {
		return fmt.Errorf("append: read answer: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("append: %s: %s", resp.Status, strings.TrimSpace(string(body)))
	}
	return nil
}
