// Package httpfence carries grants over HTTP. A client's [Transport] adds the grant that a request's context carries, and a
// server's [Handler] runs the request as the write of a [fence.Checker]: the writes of a holder that has been succeeded are
// refused with status 412, and a response goes out only when the step that it tells of has been committed.
//
//	client := &http.Client{Transport: &httpfence.Transport{}}
//	err := quorumlock.NewMutex(node, "job-x").Do(ctx, func(ctx context.Context, _ quorumlock.Token) error {
//		req, err := http.NewRequestWithContext(ctx, http.MethodPut, url, body)
//		...
//		resp, err := client.Do(req)
//		...
//		if err := httpfence.Error(resp); err != nil { // a *fence.StaleTokenError if another has written since
//			return err
//		}
//		return check(resp.StatusCode) // what the service itself says
//	})
//
// On the server, with any checker:
//
//	mux.Handle("PUT /accounts/{id}", httpfence.Handler(store, account, next))
//
// Those with a framework of their own use [Inject] and [Extract].
//
// The grant says under which lock a write is made; it proves nothing about who makes it. Whoever may send requests may send any
// token, so access is controlled as without fencing, by TLS and authentication.
package httpfence
