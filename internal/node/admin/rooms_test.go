package admin

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/orbweaver/orbweaver/internal/inbound"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// A crowded operator answers when release is closed. A call for a host panics.
type crowded struct {
	operator
	release chan struct{}
}

func (c crowded) Explain(ctx context.Context, q *pb.ExplainRequest) (*pb.Answers, error) {
	if q.Host != "" {
		panic("no such thing")
	}
	select {
	case <-c.release:
	case <-ctx.Done():
	}
	return &pb.Answers{}, nil
}

func (c crowded) Events(ctx context.Context, _ *pb.EventsRequest, stream *connect.ServerStream[pb.Event]) error {
	if err := stream.Send(&pb.Event{}); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

func newCrowd(t *testing.T, told func(string, any, []byte)) (caller, crowded) {
	op := crowded{release: make(chan struct{})}
	cfg := Config{Token: "secret", ReaderToken: "look", Operator: op, Ready: func() bool { return true },
		Metrics: prometheus.NewRegistry(), MemoryBytes: 1, Panicked: told}
	g := must.Get(newGate(cfg))(t)
	return caller{t, handler(cfg, g, t.Context())}, op
}

// No more calls are served at once than the memory permits. The others wait for some time.
func TestCallsHaveRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, op := newCrowd(t, nil)
		const calls = 20 // with 4 MiB, 15 calls of a little more than 256 KiB are served at once
		codes := make(chan int, calls)
		for range calls {
			go func() {
				codes <- c.send(ours, "POST", "http://localhost"+service+"Explain", "{}",
					"Authorization: Bearer look").StatusCode
			}()
		}
		synctest.Wait()
		began := time.Now()
		if res := c.send(ours, "POST", "http://localhost"+service+"Give", "{}", "Authorization: Bearer secret"); res.
			StatusCode != http.StatusNotImplemented || time.Since(began) > 0 {
			t.Errorf("a command beside questions: %s after %s", res.Status, time.Since(began))
		}
		time.Sleep(roomWait + time.Second)
		refused := 0
		for range len(codes) {
			if code := <-codes; code == http.StatusServiceUnavailable {
				refused++
			}
		}
		if refused != calls-15 {
			t.Errorf("%d of %d calls are refused, want %d", refused, calls, calls-15)
		}
		close(op.release)
		for range calls - refused {
			if code := <-codes; code != 200 {
				t.Errorf("a call that was let in: %d", code)
			}
		}
	})
}

// Large archived pages are read one after the other if the memory does not permit more.
func TestArchivedPagesHaveRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, began := make(chan struct{}), make(chan int64, 2)
		cfg := Config{Token: "secret", Operator: operator{}, Ready: func() bool { return true },
			Metrics: prometheus.NewRegistry(), MemoryBytes: 1, Archive: http.HandlerFunc(
				func(_ http.ResponseWriter, r *http.Request) {
					got, err := inbound.Take(r.Context(), 1<<30)
					if err != nil {
						t.Error(err)
					}
					began <- got
					<-release
				})}
		g := must.Get(newGate(cfg))(t)
		c := caller{t, handler(cfg, g, t.Context())}
		for range 2 {
			go c.send(ours, "GET", "http://localhost/archive/key/20260101000000", "")
		}
		for range 2 {
			synctest.Wait()
			if len(began) != 1 {
				t.Fatalf("%d pages are read at once", len(began))
			}
			if got := <-began; got != leastRoom {
				t.Errorf("a page gets %d bytes, want all %d", got, leastRoom)
			}
			release <- struct{}{}
		}
	})
}

// Streams have room of their own, and hold up no other calls.
func TestStreamsHaveRoom(t *testing.T) {
	s := listen(t, func(c *Config) { c.Operator, c.MemoryBytes = crowded{release: make(chan struct{})}, 1 })
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	client := pb.NewOperatorClient(&http.Client{Transport: tr}, "http://"+s.Addr())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ctx, info := connect.NewClientContext(ctx)
	info.RequestHeader().Set("Authorization", "Bearer secret")
	for i := range 8 { // as many as short calls
		stream := must.Get(client.Events(ctx, &pb.EventsRequest{Follow: true}))(t)
		defer stream.Close()
		open := stream.Receive()
		if open != (i < 7) || !open && connect.CodeOf(stream.Err()) != connect.CodeUnavailable {
			t.Errorf("stream %d: %v, %v", i, open, stream.Err())
		}
	}
	if _, err := client.Status(ctx, &pb.StatusRequest{}); err != nil {
		t.Errorf("a call beside streams: %v", err)
	}
}

// A message of a call that changes nothing has at most 128 KiB, and any message a bounded number of fields.
func TestMessagesAreBounded(t *testing.T) {
	c, _ := newCrowd(t, nil)
	for _, m := range []struct {
		method, body, kind string
		want               int
	}{
		{"Status", `{"agent":"` + strings.Repeat("x", 100<<10) + `"}`, "application/json", 200},
		{"Status", `{"agent":"` + strings.Repeat("x", 128<<10) + `"}`, "application/json", 429},
		{"AddSeeds", `{"urls":["` + strings.Repeat("x", 900<<10) + `"]}`, "application/json", 501},
		{"AddSeeds", `{"urls":["` + strings.Repeat("x", 1<<20) + `"]}`, "application/json", 429},
		{"Feed", `{"urls":[` + strings.Repeat("{},", 100_000) + `{}]}`, "application/json", 400},
		{"Feed", strings.Repeat("\x12\x00", 100_000), "application/proto", 400},
		{"Status", "\x0a\x02a1", "application/proto", 200},
		{"Status", "{}", "application/json; charset=utf-8", 200},
	} {
		res := c.send(ours, "POST", "http://localhost"+service+m.method, m.body, "Authorization: Bearer secret",
			"Content-Type: "+m.kind)
		if text, _ := io.ReadAll(res.Body); res.StatusCode != m.want {
			t.Errorf("%s with %d bytes of %s: %s, want %d: %.200s", m.method, len(m.body), m.kind, res.Status, m.want,
				text)
		}
	}
}

// A call that panics answers with an error, and the server is told where.
func TestCallPanics(t *testing.T) {
	var told string
	c, _ := newCrowd(t, func(call string, value any, stack []byte) {
		told = call + ": " + value.(string)
		if !strings.Contains(string(stack), "crowded.Explain") {
			t.Errorf("the stack is %s", stack)
		}
	})
	res := c.send(ours, "POST", "http://localhost"+service+"Explain", `{"host":"a"}`, "Authorization: Bearer look")
	text, _ := io.ReadAll(res.Body)
	if res.StatusCode != 500 || !strings.Contains(string(text), "call-panicked") || told != "Explain: no such thing" {
		t.Errorf("%s, %s; told %q", res.Status, text, told)
	}
}
