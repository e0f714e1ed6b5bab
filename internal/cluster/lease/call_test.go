package lease_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/lease"
	"github.com/orbweaver/orbweaver/internal/cluster/members"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
)

// TestLargeBatch: the messages of a call are bounded.
func TestLargeBatch(t *testing.T) {
	for octets, large := range map[int]bool{0: false, rpc.MaxData: false, rpc.MaxData + 1: true} {
		b := make([]byte, octets)
		if err := lease.Call.Request(&pb.LeaseRequest{Batch: b}); errors.Is(err, rpc.ErrTooLarge) != large {
			t.Errorf("a request of %d octets: %v", octets, err)
		}
		if err := lease.Call.Response(nil, &pb.LeaseResponse{Batch: b}); errors.Is(err, rpc.ErrTooLarge) != large {
			t.Errorf("an answer of %d octets: %v", octets, err)
		}
	}
}

// TestAnswer: an agent answers neither a damaged batch nor one of another start, and no batch before it has a view.
func TestAnswer(t *testing.T) {
	s := lease.NewService(lease.Parts{Members: &members.Members{Self: gossip.Agent{Name: "a1", Boot: 1}},
		Clock: clock.System, Running: new(sync.WaitGroup)})
	batch := (&lease.Batch{From: 1, Stamp: 1}).AppendTo(nil)
	ask := func(batch []byte) error {
		_, err := s.Answer(t.Context(), rpc.Caller{Name: "a2", Boot: 1}, &pb.LeaseRequest{Batch: batch})
		return err
	}
	for _, joined := range []bool{false, true} {
		if joined {
			s.Join(nil)
		}
		refusal, ok := errors.AsType[*rpc.Refusal](ask(batch[1:]))
		if !ok || refusal.Reason != "lease" {
			t.Errorf("a damaged batch, joined %v: %v", joined, refusal)
		}
		if err := ask(batch); !errors.Is(err, rpc.ErrAgain) {
			t.Errorf("joined %v: %v", joined, err)
		}
	}
	if n := s.Counts(); n.Messages != 0 {
		t.Errorf("%d messages", n.Messages)
	}
}
