package shares_test

import (
	"errors"
	"math"
	"testing"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/cluster/shares"
)

// TestHostile: questions and answers beyond their bounds are malformed, and those at their bounds are not.
func TestHostile(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for want, qs := range map[bool][]*pb.ShareRequest{
		true: {{}, {Held: 1, Want: 1, LeftMs: 60_000}},
		false: {{Held: 1.5}, {Held: -0.1}, {Held: nan}, {Want: 2}, {Want: nan}, {LeftMs: 60_001},
			{LeftMs: math.MaxUint32}},
	} {
		for _, q := range qs {
			if err := shares.Call.Request(q); (err == nil) != want || !want && !errors.Is(err, rpc.ErrMalformed) {
				t.Errorf("%v: %v", q, err)
			}
		}
	}
	for want, gs := range map[bool][]*pb.ShareResponse{
		true: {{Agents: 1}, {Share: 1, Agents: 4096, Requests: 40, Bits: 1e6}},
		false: {{}, {Agents: 4097}, {Agents: 1, Share: 1.1}, {Agents: 1, Share: nan}, {Agents: 1, Requests: -1},
			{Agents: 1, Requests: inf}, {Agents: 1, Bits: nan}},
	} {
		for _, g := range gs {
			if err := shares.Call.Response(nil, g); (err == nil) != want || !want && !errors.Is(err, rpc.ErrMalformed) {
				t.Errorf("%v: %v", g, err)
			}
		}
	}
}
