package standing_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/node/standing"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// TestHostile: orders beyond their bounds are refused, and those at their bounds are not.
func TestHostile(t *testing.T) {
	orders := func(n, size int) [][]byte { return slices.Repeat([][]byte{make([]byte, size)}, n) }
	digest := make([]byte, 32)
	for want, qs := range map[error][]*pb.OrdersRequest{
		nil: {{Digest: digest}, {Digest: digest, Orders: orders(4096, rpc.MaxData/4096)},
			{Digest: digest, Orders: orders(rpc.MaxData/(4<<10), 4<<10)}},
		rpc.ErrMalformed: {{}, {Digest: digest[:16]}, {Digest: append(digest, 0)},
			{Digest: digest, Orders: orders(1, 0)}},
		rpc.ErrTooLarge: {{Digest: digest, Orders: orders(1, 4<<10+1)}, {Digest: digest, Orders: orders(4097, 1)},
			{Digest: digest, Orders: orders(rpc.MaxData/(4<<10)+1, 4<<10)}},
	} {
		for _, q := range qs {
			if err := standing.Call.Request(q); !errors.Is(err, want) {
				t.Errorf("%d orders: %v, want %v", len(q.Orders), err, want)
			}
			r := &pb.OrdersResponse{Orders: q.Orders, Digest: q.Digest}
			if err := standing.Call.Response(nil, r); !errors.Is(err, want) {
				t.Errorf("an answer with %d orders: %v, want %v", len(q.Orders), err, want)
			}
		}
	}
	for want, unknown := range map[error][]string{nil: slices.Repeat([]string{strings.Repeat("v", 64)}, 64),
		rpc.ErrTooLarge: slices.Repeat([]string{"v"}, 65)} {
		r := &pb.OrdersResponse{Digest: digest, Unknown: unknown}
		if err := standing.Call.Response(nil, r); !errors.Is(err, want) {
			t.Errorf("an answer with %d unknown verbs: %v, want %v", len(unknown), err, want)
		}
	}
	long := &pb.OrdersResponse{Digest: digest, Unknown: []string{strings.Repeat("v", 65)}}
	if err := standing.Call.Response(nil, long); !errors.Is(err, rpc.ErrTooLarge) {
		t.Errorf("an answer with a long verb: %v", err)
	}
}

// FuzzOrders: any message is refused, or its orders are within their bounds.
func FuzzOrders(f *testing.F) {
	sample, err := proto.Marshal(&pb.OrdersRequest{Orders: [][]byte{[]byte("pause"), {0}}, Digest: make([]byte, 32)})
	must.Do(f, err)
	f.Add(sample)
	f.Fuzz(func(t *testing.T, b []byte) {
		q := new(pb.OrdersRequest)
		if proto.Unmarshal(b, q) != nil || standing.Call.Request(q) != nil {
			return
		}
		if len(q.Digest) != 32 || len(q.Orders) > 4096 || len(bytes.Join(q.Orders, nil)) > rpc.MaxData ||
			slices.ContainsFunc(q.Orders, func(o []byte) bool { return len(o) == 0 || len(o) > 4<<10 }) {
			t.Fatalf("%v is let through", q)
		}
	})
}
