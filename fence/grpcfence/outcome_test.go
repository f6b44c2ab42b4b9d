package grpcfence_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/fence/grpcfence"
)

// wire is a service over connections that can be cut, whose answers something happens to after the commit.
type wire struct {
	*client
	writes   atomic.Int32
	accepted chan net.Conn
}

type recording struct {
	net.Listener
	accepted chan net.Conn
}

func (l *recording) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil {
		l.accepted <- conn
	}
	return conn, err
}

func serveOver(t *testing.T, after func(w *wire), opts ...grpc.DialOption) *wire {
	t.Helper()
	w := &wire{accepted: make(chan net.Conn, 100)}
	outer := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		reply, err := handle(ctx, req)
		after(w)
		return reply, err
	}
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(outer, grpcfence.Check(new(fence.Guard), resourceOf)))
	server.RegisterService(desc(func(context.Context, string, url.Values) (string, error) { w.writes.Add(1); return "", nil }, nil), nil)
	memory := bufconn.Listen(1 << 20)
	served := make(chan error, 1)
	go func() { served <- server.Serve(&recording{memory, w.accepted}) }()
	conn, err := grpc.NewClient("passthrough:///bufconn", append(opts,
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return memory.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()))...)
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
	w.client = &client{conn}
	return w
}

const retries = `{"methodConfig":[{"name":[{}],"retryPolicy":{"maxAttempts":3,"initialBackoff":"0.01s","maxBackoff":"0.1s",` +
	`"backoffMultiplier":1,"retryableStatusCodes":["UNAVAILABLE"]}}]}`

// A connection that is lost after the commit is UNAVAILABLE, as is a server that cannot be reached, and gRPC repeats both if it
// is told to: but not behind the interceptors, which say that the outcome is unknown. Without them a call is written twice.
func TestConnectionCutAfterTheCommit(t *testing.T) {
	interceptor := grpc.WithUnaryInterceptor(grpcfence.UnaryClientInterceptor())
	for name, c := range map[string]struct {
		opts   []grpc.DialOption
		code   codes.Code
		is     error
		writes int32
	}{
		"plain":                   {[]grpc.DialOption{interceptor}, codes.Unavailable, fence.ErrUnknownOutcome, 1},
		"with a retry policy":     {[]grpc.DialOption{interceptor, grpc.WithDefaultServiceConfig(retries)}, codes.Unavailable, fence.ErrUnknownOutcome, 1},
		"and without interceptor": {[]grpc.DialOption{grpc.WithDefaultServiceConfig(retries)}, codes.OK, nil, 2},
	} {
		t.Run(name, func(t *testing.T) {
			var cut atomic.Bool
			w := serveOver(t, func(w *wire) {
				if !cut.Swap(true) {
					_ = (<-w.accepted).Close()
				}
			}, c.opts...)
			ctx, err := grpcfence.Outgoing(fence.NewContext(t.Context(), grant))
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(ctx, bound)
			defer cancel()
			err = w.Write(ctx, "r", "x")
			if status.Code(err) != c.code || !errors.Is(err, c.is) || w.writes.Load() != c.writes || !cut.Load() {
				t.Errorf("%v, %d writes", err, w.writes.Load())
			}
		})
	}
}

// A hold that is lost while the answer is under way says nothing of the write; one that was lost before says that there is none,
// of calls and of streams.
func TestHoldLostBeforeAndAfterTheWrite(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	node, err := quorumlock.Open(ctx, quorumlock.Config{Cluster: "grpcfence", Expect: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := node.Close(); err != nil {
			t.Error(err)
		}
	}()
	committed, release := make(chan struct{}), make(chan struct{})
	w := serveOver(t, func(*wire) {
		close(committed)
		<-release
	}, grpc.WithUnaryInterceptor(grpcfence.UnaryClientInterceptor()), grpc.WithStreamInterceptor(grpcfence.StreamClientInterceptor()))
	defer close(release)
	err = quorumlock.NewMutex(node, "job-x").Do(ctx, func(held context.Context, token quorumlock.Token) error {
		forced := make(chan error, 1)
		go func() {
			<-committed
			force := quorumlock.ForceOptions{Actor: "operator", Reason: "test", Now: true}
			forced <- node.ForceRelease(ctx, "job-x", token, force)
		}()
		err := w.Write(held, "r", "x")
		if !errors.Is(err, fence.ErrUnknownOutcome) || !errors.Is(err, quorumlock.ErrLost) || status.Code(err) != codes.Canceled || w.writes.Load() != 1 {
			t.Errorf("lost in flight: %v, %d writes", err, w.writes.Load())
		}
		err = w.Write(held, "r", "x")
		_, streamErr := w.conn.NewStream(held, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, appendAll)
		for what, err := range map[string]error{"call": err, "stream": streamErr} {
			known := errors.Is(err, quorumlock.ErrLost) && errors.Is(err, context.Canceled) && errors.Is(err, grpcfence.ErrNotWritten)
			if !known || errors.Is(err, fence.ErrUnknownOutcome) || status.Code(err) != codes.Canceled || w.writes.Load() != 1 {
				t.Errorf("%s, lost before: %v, %d writes", what, err, w.writes.Load())
			}
		}
		return <-forced
	})
	if !errors.Is(err, quorumlock.ErrLost) {
		t.Error(err)
	}
}

// What gRPC may make up by itself leaves the outcome of a call with a grant open; what it never does is the service's own to say.
func TestStatusWithoutProof(t *testing.T) {
	intercept := grpcfence.UnaryClientInterceptor()
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		said := status.Error(code, "said")
		invoke := func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { return said }
		own := map[codes.Code]bool{
			codes.InvalidArgument: true, codes.NotFound: true, codes.AlreadyExists: true, codes.PermissionDenied: true, codes.Unauthenticated: true,
			codes.FailedPrecondition: true, codes.Aborted: true, codes.OutOfRange: true, codes.DataLoss: true,
		}[code]
		err := intercept(fence.NewContext(t.Context(), grant), write, nil, nil, nil, invoke)
		if errors.Is(err, fence.ErrUnknownOutcome) == own || status.Code(err) != code || !errors.Is(err, said) {
			t.Errorf("%v: %v", code, err)
		}
		if err := intercept(t.Context(), write, nil, nil, nil, invoke); err != said {
			t.Errorf("%v, without a grant: %v", code, err)
		}
	}
	broken := errors.New("an interceptor's own")
	invoke := func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { return broken }
	if err := intercept(fence.NewContext(t.Context(), grant), write, nil, nil, nil, invoke); !errors.Is(err, fence.ErrUnknownOutcome) || !errors.Is(err, broken) {
		t.Error(err)
	}
}

// The end of a stream is no error of it; what breaks it off leaves open what became of the messages that were not answered.
func TestStreamThatBreaksOff(t *testing.T) {
	v := newValues()
	c := v.serve(t)
	ctx, cancel := context.WithCancelCause(fence.NewContext(t.Context(), grant))
	defer cancel(nil)
	stream, err := c.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, appendAll)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(stream.SendMsg(wrapperspb.String("a")), stream.RecvMsg(new(wrapperspb.StringValue))); err != nil {
		t.Fatal(err)
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if err := stream.RecvMsg(new(wrapperspb.StringValue)); err != io.EOF {
		t.Errorf("the end is told as %v", err)
	}
	stream, err = c.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, appendAll)
	if err != nil {
		t.Fatal(err)
	}
	cancel(quorumlock.ErrLost)
	err = stream.RecvMsg(new(wrapperspb.StringValue))
	if !errors.Is(err, fence.ErrUnknownOutcome) || !errors.Is(err, quorumlock.ErrLost) || status.Code(err) != codes.Canceled {
		t.Error(err)
	}
}
