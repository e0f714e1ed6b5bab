package cluster

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

// A newcomer has no view, so it can tell nothing about a host.
type newcomer struct{ static }

func (newcomer) View() uint64 { return 0 }

// An heirOf has got its hosts from a newcomer, which answers it from the third question on.
type heirOf struct {
	static
	newcomer *world
	asked    atomic.Int64
}

func (*heirOf) Tenure(string) (owner string, mine bool, since uint64) { return "", true, 1 }
func (*heirOf) Before(string) (agents []string, enough int)           { return []string{"b1"}, 1 }

func (h *heirOf) Claim(ctx context.Context, _ string, q *pb.ClaimRequest) (*pb.ClaimResponse, error) {
	if h.asked.Add(1) < 3 {
		return h.newcomer.cl.tenants.answerClaim(ctx, rpc.Caller{Name: "a1"}, q)
	}
	return &pb.ClaimResponse{Verdicts: bytes.Repeat([]byte{claimNothing}, len(q.Hosts))}, nil
}

// TestClaimBeforeTheView: an agent that has no view yet says to ask again later. The caller does not visit the host,
// and comes again.
func TestClaimBeforeTheView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mine := static{func(string) (string, bool) { return "", true }}
		before := newStory(t, "")
		before.among(Others{Placement: newcomer{mine}, Exchange: mine}, nil, nil)
		other, endOther := before.start(t, testdisk.NewMem())
		r, err := other.cl.tenants.answerClaim(t.Context(), rpc.Caller{Name: "a1"}, aExample)
		if !errors.Is(err, rpc.ErrAgain) {
			t.Errorf("%v, %v", r, err)
		}
		s := newStory(t, "seed http://a.example/\ndns a.example 192.0.2.1\nhttp://a.example/ 200\n")
		h := &heirOf{static: mine, newcomer: other}
		s.among(Others{Placement: h, Exchange: h}, nil, nil)
		w, end := s.start(t, testdisk.NewMem())
		time.Sleep(claimWait / 2)
		if n := w.View.Status().Fetched; n != 0 || h.asked.Load() != 1 {
			t.Errorf("%d visits after %d questions, want none after 1", n, h.asked.Load())
		}
		time.Sleep(time.Minute)
		if n := w.View.Status().Pages; n != 1 || h.asked.Load() != 3 {
			t.Errorf("%d pages after %d questions, want 1 after 3", n, h.asked.Load())
		}
		end()
		endOther()
	})
}
