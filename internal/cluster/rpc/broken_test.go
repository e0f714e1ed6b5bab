package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
)

// cutConn breaks after a number of octets, in either direction.
type cutConn struct {
	net.Conn
	mu   sync.Mutex
	left int
}

func (c *cutConn) spend(n int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left -= n; c.left < 0 {
		c.Conn.Close()
		return io.ErrUnexpectedEOF
	}
	return nil
}

func (c *cutConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if cut := c.spend(n); cut != nil {
		return 0, cut
	}
	return n, err
}

func (c *cutConn) Write(b []byte) (int, error) {
	if err := c.spend(len(b)); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

// TestAtLeastOnce: connections break at any octet. Every link that is pushed until it is
// acknowledged arrives, and nothing else does.
func TestAtLeastOnce(t *testing.T) {
	rng := testseed.Rand(t)
	keys := bundles(t, "a1", "a2")
	var mu sync.Mutex
	arrived := map[string]int{}
	l, s := agent(t, rpc.System, "127.0.0.1:0", keys["a2"], func(_ string, _ rpc.Caller, q any) (any, error) {
		mu.Lock()
		defer mu.Unlock()
		for u := range strings.FieldsSeq(string(q.(*pb.PushRequest).Links)) {
			arrived[u]++
		}
		return nil, nil
	})
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		mu.Lock()
		defer mu.Unlock()
		return &cutConn{Conn: conn, left: 2500 + rng.IntN(6000)}, nil
	}
	c := client(t, keys["a1"], caller("a1"), dial)
	want := map[string]bool{}
	failures := 0
	for i := range 60 {
		var urls []string
		for j := range 1 + i%7 {
			u := fmt.Sprintf("http://h%d.example/%d/%d", i%5, i, j)
			urls = append(urls, u)
			want[u] = true
		}
		for {
			_, err := of(rpc.CallPush).send(t.Context(), c.Peer("a2", l.Addr()),
				&pb.PushRequest{Links: []byte(strings.Join(urls, " "))})
			if err == nil {
				break
			}
			if !errors.Is(err, rpc.ErrUnreachable) {
				t.Fatalf("Push: %v", err)
			}
			failures++
			if failures%5 == 0 { // shorten the wait after failures
				c.Forget("a2")
			}
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for u := range want {
		if arrived[u] == 0 {
			t.Errorf("%s did not arrive", u)
		}
	}
	for u := range arrived {
		if !want[u] {
			t.Errorf("%s was not sent", u)
		}
	}
	if failures == 0 {
		t.Error("nothing broke")
	}
	t.Logf("%d failures; refused: %v", failures, maps.Collect(maps.All(s.Counts().Refused)))
}
