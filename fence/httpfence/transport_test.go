package httpfence_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/fence/httpfence"
)

// roundTrip answers requests within the process.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

const grantText = "token=1796157310875344;cluster=cluster-1;lock=job-x"

func TestTransportAddsTheGrant(t *testing.T) {
	other := fence.Grant{Cluster: "cluster-1", Lock: "jöb, y", Token: 7}
	for name, c := range map[string]struct {
		grants   []fence.Grant
		byHand   string
		required bool
		want     string
		err      error
	}{
		"one":                  {[]fence.Grant{grant}, "", false, grantText, nil},
		"one, required":        {[]fence.Grant{grant}, "", true, grantText, nil},
		"several":              {[]fence.Grant{grant, other}, "", false, grantText + ", token=7;cluster=cluster-1;lock=j%C3%B6b%2C%20y", nil},
		"in place of another":  {[]fence.Grant{grant}, "token=1;cluster=c;lock=l", false, grantText, nil},
		"none":                 {nil, "", false, "", nil},
		"none, required":       {nil, "", true, "", fence.ErrNoGrant},
		"by hand":              {nil, "token=1;cluster=c;lock=l", false, "token=1;cluster=c;lock=l", nil},
		"by hand, required":    {nil, "token=1;cluster=c;lock=l", true, "token=1;cluster=c;lock=l", nil},
		"no token":             {[]fence.Grant{{Cluster: "c", Lock: "l"}}, "", false, "", fence.ErrInvalid},
		"not valid, by a trap": {[]fence.Grant{{Cluster: "c", Lock: "l\r\nX: y", Token: 1}}, "", false, "", fence.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			var sent *http.Request
			base := roundTrip(func(r *http.Request) (*http.Response, error) {
				sent = r
				return httptest.NewRecorder().Result(), nil
			})
			body := &closes{Reader: strings.NewReader("body")}
			req := httptest.NewRequest("PUT", "http://store.example/", body).WithContext(fence.NewContext(t.Context(), c.grants...))
			if req.Header = nil; c.byHand != "" {
				req.Header = http.Header{httpfence.Header: {c.byHand}}
			}
			_, err := (&httpfence.Transport{Base: base, Required: c.required}).RoundTrip(req)
			if !errors.Is(err, c.err) || (sent == nil) != (c.err != nil) {
				t.Fatalf("error %v, want %v; sent: %v", err, c.err, sent != nil)
			}
			if own := req.Header.Get(httpfence.Header); own != c.byHand {
				t.Errorf("the caller's request has become %q", own)
			}
			if sent == nil {
				if body.closed != 1 {
					t.Errorf("body closed %d times", body.closed)
				}
				return
			}
			if got := strings.Join(sent.Header.Values(httpfence.Header), "|"); got != c.want {
				t.Errorf("sent %q, want %q", got, c.want)
			}
		})
	}
}

type closes struct {
	io.Reader
	closed int
}

func (c *closes) Close() error { c.closed++; return nil }

// Grants follow redirects that stay at one place, and no others: whether net/http copies a header to a sub-domain, or has set
// it again after a detour.
func TestGrantsDoNotFollowRedirectsElsewhere(t *testing.T) {
	for name, c := range map[string]struct {
		path []string // of URLs, each redirecting to the next
		want string   // 1 for each that gets the grant, 0 for others
	}{
		"no redirect":      {[]string{"http://a.example/1"}, "1"},
		"same place":       {[]string{"http://a.example/1", "http://a.example/2", "http://A.example:80/3"}, "111"},
		"another host":     {[]string{"http://a.example/1", "http://b.example/2"}, "10"},
		"and back":         {[]string{"http://a.example/1", "http://b.example/2", "http://a.example/3"}, "100"},
		"and on":           {[]string{"http://a.example/1", "http://b.example/2", "http://b.example/3"}, "100"},
		"later":            {[]string{"http://a.example/1", "http://a.example/2", "http://b.example/3"}, "110"},
		"sub-domain":       {[]string{"http://a.example/1", "http://sub.a.example/2"}, "10"},
		"another port":     {[]string{"http://a.example/1", "http://a.example:81/2"}, "10"},
		"another scheme":   {[]string{"https://a.example/1", "http://a.example:443/2"}, "10"},
		"default of https": {[]string{"https://a.example:443/1", "https://a.example/2"}, "11"},
	} {
		for _, byHand := range []bool{false, true} {
			var got strings.Builder
			base := roundTrip(func(r *http.Request) (*http.Response, error) {
				rw := httptest.NewRecorder()
				seen := "0"
				if r.Header.Get(httpfence.Header) == grantText {
					seen = "1"
				}
				got.WriteString(seen)
				if n := got.Len(); n < len(c.path) {
					rw.Header().Set("Location", c.path[n])
					rw.WriteHeader(http.StatusTemporaryRedirect)
				}
				resp := rw.Result()
				resp.Request = r // as http.Transport does
				return resp, nil
			})
			ctx := t.Context()
			if !byHand {
				ctx = fence.NewContext(ctx, grant)
			}
			req, err := http.NewRequestWithContext(ctx, "PUT", c.path[0], strings.NewReader("body"))
			if err != nil {
				t.Fatal(err)
			}
			if byHand {
				granted(t, req)
			}
			if _, err := (&http.Client{Transport: &httpfence.Transport{Base: base}}).Do(req); err != nil {
				t.Fatal(err)
			}
			if got.String() != c.want {
				t.Errorf("%s, by hand %v: %s, want %s", name, byHand, got.String(), c.want)
			}
		}
	}
}

// The same over real connections, where the other host asks for a grant and the client requires one.
func TestRedirectOverTheWire(t *testing.T) {
	var guard fence.Guard
	elsewhere := server(t, &guard, fine)
	var path string
	front := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get(httpfence.Header) != grantText {
			t.Errorf("%s comes with %q", r.URL, r.Header.Get(httpfence.Header))
		}
		if path = r.URL.Path; path == "/" {
			http.Redirect(rw, r, "/moved", http.StatusPermanentRedirect)
			return
		}
		http.Redirect(rw, r, elsewhere.URL+"/?name=r", http.StatusPermanentRedirect)
	}))
	defer front.Close()
	resp, err := send(t, "PUT", front.URL, strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	if checkStatus(t, resp, 428); path != "/moved" || !errors.Is(httpfence.Error(resp), fence.ErrNoGrant) {
		t.Errorf("redirected to %q, %v", path, httpfence.Error(resp))
	}
	required := &httpfence.Transport{Base: &http.Transport{DisableKeepAlives: true}, Required: true}
	req, err := http.NewRequestWithContext(fence.NewContext(context.Background(), grant), "PUT", front.URL, strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (&http.Client{Transport: required}).Do(req); !errors.Is(err, fence.ErrNoGrant) {
		t.Errorf("required: %v", err)
	}
	if guard.Last("r") != (fence.Grant{}) {
		t.Error("the other host has had the grant")
	}
}
