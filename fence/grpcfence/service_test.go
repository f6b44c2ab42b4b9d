package grpcfence_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/fence/fencetest"
	"github.com/quorumlock/quorumlock/fence/grpcfence"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const bound = 20 * time.Second

// The methods of the service. Messages are strings of URL-encoded fields, which carry any bytes.
const (
	service   = "/fence.test.Values/"
	write     = service + "Write"
	claim     = service + "Claim"
	read      = service + "Read"
	writeOpen = service + "WriteUnfenced"
	readOpen  = service + "ReadUnfenced"
	appendAll = service + "Append"
)

type unary = func(ctx context.Context, method string, args url.Values) (string, error)

// values is a storage service in memory.
type values struct {
	guard fence.Guard

	mu          sync.Mutex
	fence, open map[string]string
}

func newValues() *values {
	return &values{fence: make(map[string]string), open: make(map[string]string)}
}

func (v *values) call(_ context.Context, method string, args url.Values) (string, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	name, value := args.Get("name"), args.Get("value")
	switch method {
	case write:
		v.fence[name] = value
	case writeOpen:
		v.open[name] = value
	case read:
		return v.fence[name], nil
	case readOpen:
		return v.open[name], nil
	}
	return "", nil
}

// appends is a stream of values, each of which the handler itself has checked.
func (v *values) appends(stream grpc.ServerStream) error {
	for {
		var m wrapperspb.StringValue
		if err := stream.RecvMsg(&m); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		err := v.guard.Do(stream.Context(), "stream", func(context.Context) error {
			v.mu.Lock()
			defer v.mu.Unlock()
			v.fence["stream"] += m.Value
			return nil
		})
		if err != nil {
			return err
		}
		if err := stream.SendMsg(&m); err != nil {
			return err
		}
	}
}

func resourceOf(_ context.Context, method string, req any) (string, error) {
	if method != write && method != claim {
		return "", grpcfence.ErrUnfenced
	}
	args, err := url.ParseQuery(req.(*wrapperspb.StringValue).Value)
	return args.Get("name"), err
}

// desc describes the service as generated code would.
func desc(call unary, stream func(grpc.ServerStream) error) *grpc.ServiceDesc {
	d := &grpc.ServiceDesc{ServiceName: "fence.test.Values", HandlerType: (*any)(nil)}
	for _, method := range []string{write, claim, read, writeOpen, readOpen} {
		handler := func(_ any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
			var req wrapperspb.StringValue
			if err := decode(&req); err != nil {
				return nil, err
			}
			handle := func(ctx context.Context, req any) (any, error) {
				args, err := url.ParseQuery(req.(*wrapperspb.StringValue).Value)
				if err != nil {
					return nil, err
				}
				reply, err := call(ctx, method, args)
				return wrapperspb.String(url.QueryEscape(reply)), err
			}
			if intercept == nil {
				return handle(ctx, &req)
			}
			return intercept(ctx, &req, &grpc.UnaryServerInfo{FullMethod: method}, handle)
		}
		d.Methods = append(d.Methods, grpc.MethodDesc{MethodName: method[len(service):], Handler: handler})
	}
	d.Streams = []grpc.StreamDesc{{
		StreamName: appendAll[len(service):], ServerStreams: true, ClientStreams: true,
		Handler: func(_ any, s grpc.ServerStream) error { return stream(s) },
	}}
	return d
}

// client is the service as its users see it, over a connection in memory.
type client struct{ conn *grpc.ClientConn }

func serve(t testing.TB, call unary, stream func(grpc.ServerStream) error, opts ...grpc.ServerOption) *client {
	t.Helper()
	listener := bufconn.Listen(1 << 20)
	server := grpc.NewServer(opts...)
	server.RegisterService(desc(call, stream), nil)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:///bufconn",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUnaryInterceptor(grpcfence.UnaryClientInterceptor()),
		grpc.WithStreamInterceptor(grpcfence.StreamClientInterceptor()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		server.Stop()
		if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Error(err)
		}
	})
	return &client{conn}
}

func (v *values) serve(t testing.TB) *client {
	return serve(t, v.call, v.appends,
		grpc.UnaryInterceptor(grpcfence.Check(&v.guard, resourceOf)),
		grpc.StreamInterceptor(grpcfence.StreamServerInterceptor()))
}

func (c *client) call(ctx context.Context, method, resource, value string) (string, error) {
	args := url.Values{"name": {resource}, "value": {value}}
	var reply wrapperspb.StringValue
	if err := c.conn.Invoke(ctx, method, wrapperspb.String(args.Encode()), &reply); err != nil {
		return "", err
	}
	return url.QueryUnescape(reply.Value)
}

func (c *client) Write(ctx context.Context, resource, value string) error {
	_, err := c.call(ctx, write, resource, value)
	return err
}

func (c *client) Claim(ctx context.Context, resource string) error {
	_, err := c.call(ctx, claim, resource, "")
	return err
}

func (c *client) Read(ctx context.Context, resource string) (string, error) {
	return c.call(ctx, read, resource, "")
}

func (c *client) WriteUnfenced(ctx context.Context, resource, value string) error {
	_, err := c.call(ctx, writeOpen, resource, value)
	return err
}

func (c *client) ReadUnfenced(ctx context.Context, resource string) (string, error) {
	return c.call(ctx, readOpen, resource, "")
}

func TestConforms(t *testing.T) {
	c := newValues().serve(t)
	fencetest.Run(t, func(*testing.T) fencetest.Backend { return c })
}

func TestRefusesStaleHolders(t *testing.T) {
	fencetest.Stale(t, newValues().serve(t), fencetest.Successions(t))
}
