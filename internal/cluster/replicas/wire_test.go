package replicas_test

import (
	"errors"
	"math"
	"testing"

	"github.com/orbweaver/orbweaver/internal/cluster/replicas"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
)

// TestHostile: batches and answers beyond their bounds are refused, and those at their bounds are not.
func TestHostile(t *testing.T) {
	for want, qs := range map[error][]*pb.ShipRequest{
		nil: {{Count: 1, Records: []byte("x")}, {Seq: math.MaxUint64, Count: rpc.MaxData,
			Records: make([]byte, rpc.MaxData)}},
		rpc.ErrTooLarge: {{Count: 1, Records: make([]byte, rpc.MaxData+1)}},
		rpc.ErrMalformed: {{}, {Count: 5}, {Records: []byte("x")}, {Count: 2, Records: []byte("x")},
			{Count: math.MaxUint32, Records: []byte("x")}},
	} {
		for _, q := range qs {
			if err := replicas.Call.Request(q); !errors.Is(err, want) {
				t.Errorf("%d records in %d octets: %v, want %v", q.Count, len(q.Records), err, want)
			}
		}
	}
	for seq, want := range map[uint64]error{7: nil, 0: rpc.ErrMalformed, 8: rpc.ErrMalformed} {
		err := replicas.Call.Response(&pb.ShipRequest{Seq: 7}, &pb.ShipResponse{Seq: seq})
		if !errors.Is(err, want) {
			t.Errorf("batch 7 acknowledged as %d: %v, want %v", seq, err, want)
		}
	}
}
