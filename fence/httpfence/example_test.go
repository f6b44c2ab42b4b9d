package httpfence_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/fence/httpfence"
)

func Example() {
	// The server: its checker stands for one that keeps tokens where the data is, such as pgfence.
	var checker fence.Guard
	account := func(r *http.Request) (string, error) { return "account/" + r.PathValue("id"), nil }
	deposit := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(rw, "deposited to %s", r.PathValue("id"))
	})
	mux := http.NewServeMux()
	mux.Handle("POST /accounts/{id}", httpfence.Handler(&checker, account, deposit))
	server := httptest.NewServer(mux)
	defer server.Close()

	// The client: what is done under the lock passes ctx on, and nothing else.
	node, err := quorumlock.Open(context.Background(), quorumlock.Config{Cluster: "example", Name: "web-1", Expect: 1})
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	client := &http.Client{Transport: &httpfence.Transport{}}
	post := func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/accounts/7", strings.NewReader("amount=5"))
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err // whether anything was written it tells by fence.ErrUnknownOutcome and fence.ErrNotWritten
		}
		defer resp.Body.Close()
		if err := httpfence.Error(resp); err != nil {
			return err
		}
		text, err := io.ReadAll(resp.Body)
		if resp.StatusCode != http.StatusOK { // the service's own errors are not the fence's
			return errors.Join(fmt.Errorf("%s: %s", resp.Status, text), err)
		}
		fmt.Printf("%s: %s\n", resp.Status, text)
		return err
	}
	err = quorumlock.NewMutex(node, "account-7").Do(context.Background(), func(ctx context.Context, _ quorumlock.Token) error {
		return post(ctx)
	})
	fmt.Println("under the lock:", err)
	fmt.Println("without it refused:", errors.Is(post(context.Background()), fence.ErrNoGrant))
	// Output:
	// 200 OK: deposited to 7
	// under the lock: <nil>
	// without it refused: true
}

// A connection that is lost after the request has left tells nothing of the write. Neither does a hold that is lost while the
// answer is under way, so the unknown outcome is what to ask for first.
func ExampleTransport() {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		panic(http.ErrAbortHandler) // the write stands, and the connection breaks
	}))
	defer server.Close()
	ctx := fence.NewContext(context.Background(), fence.Grant{Cluster: "5f0c9d", Lock: "account-7", Token: 1796157310875344}) // as in a hold's context
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, server.URL+"/accounts/7", strings.NewReader("balance=5"))
	if err != nil {
		log.Fatal(err)
	}
	_, err = (&http.Client{Transport: &httpfence.Transport{}}).Do(req)
	switch {
	case errors.Is(err, fence.ErrUnknownOutcome):
		fmt.Println("claim again, then look whether it is there")
	case errors.Is(err, quorumlock.ErrLost), errors.Is(err, fence.ErrStaleToken):
		fmt.Println("nothing was written, and another has the lock")
	case errors.Is(err, fence.ErrNotWritten):
		fmt.Println("nothing was written, try again")
	}
	// Output:
	// claim again, then look whether it is there
}

// Any client and any framework can carry grants: they are one header.
func ExampleInject() {
	sent := make(http.Header)
	grant := fence.Grant{Cluster: "5f0c9d", Lock: "job x", Token: 1796157310875344}
	if err := httpfence.Inject(sent, grant); err != nil {
		log.Fatal(err)
	}
	fmt.Println(httpfence.Header+":", sent.Get(httpfence.Header))

	ctx, err := httpfence.Extract(&http.Request{Header: sent})
	if err != nil {
		log.Fatal(err)
	}
	received, err := fence.FromContext(ctx, "account/7")
	fmt.Println(received == grant, err)
	// Output:
	// Quorumlock-Grant: token=1796157310875344;cluster=5f0c9d;lock=job%20x
	// true <nil>
}
