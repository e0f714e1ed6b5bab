package limits_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/orbweaver/orbweaver/internal/cluster/limits"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
)

// TestHostile: reports and grants beyond their bounds are malformed, and those at their bounds are not.
func TestHostile(t *testing.T) {
	known := func(agents int) map[string]uint64 {
		m := map[string]uint64{}
		for i := range agents {
			m[fmt.Sprint("a", i)] = 1 << 60
		}
		return m
	}
	for want, qs := range map[bool][]*pb.BudgetRequest{
		true: {{}, {Seq: 3, Used: 1 << 60, Held: 1 << 60, Want: 1 << 20, Known: known(4096)}},
		false: {{Used: 2, Held: 1}, {Held: 1<<60 + 1}, {Want: 1<<20 + 1}, {Known: map[string]uint64{"": 1}},
			{Known: map[string]uint64{"a": 1<<60 + 1}}, {Known: known(4097)}},
	} {
		for _, q := range qs {
			if err := limits.Call.Request(q); (err == nil) != want || !want && !errors.Is(err, rpc.ErrMalformed) {
				t.Errorf("%.200v: %v", q, err)
			}
		}
	}
	q := &pb.BudgetRequest{Seq: 3, Used: 4, Held: 5, Want: 10}
	for want, gs := range map[bool][]*pb.BudgetResponse{
		true: {{Held: 5}, {Held: 15, Spent: true, Known: known(4096)}},
		false: {{}, {Held: 4}, {Held: 16}, {Held: 1<<64 - 1}, {Held: 5, Known: map[string]uint64{"../a": 1}},
			{Held: 5, Known: map[string]uint64{"a": 1<<60 + 1}}, {Held: 5, Known: known(4097)}},
	} {
		for _, g := range gs {
			if err := limits.Call.Response(q, g); (err == nil) != want || !want && !errors.Is(err, rpc.ErrMalformed) {
				t.Errorf("%.200v: %v", g, err)
			}
		}
	}
}
