package rpc

import (
	"context"
	"math"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
)

// A ShareAsk is an agent's question for its share of the crawl's rate; see package shares. Held and Want are 0 to 1.
type ShareAsk struct {
	Seq  uint64
	Held float64
	Left time.Duration
	Want float64
}

// A ShareGrant is the answer to a ShareAsk.
type ShareGrant struct {
	Share  float64 // 0 to 1
	Agents int     // that have shares, at least 1
	// Requests and Bits are the limits of all agents together, a second, by the receiver's clock. Zero means none.
	Requests, Bits float64
}

// Share asks for this agent's share of the crawl's rate.
func (p *Peer) Share(ctx context.Context, a ShareAsk) (g ShareGrant, err error) {
	err = p.call(ctx, CallShare, func(ctx context.Context) error {
		res, err := p.calls.Share(ctx, shareAskToWire(a))
		if err == nil {
			g, err = shareGrantFromWire(res)
		}
		return err
	})
	return g, err
}

func (a answers) Share(ctx context.Context, req *pb.ShareRequest) (*pb.ShareResponse, error) {
	return handle(a.s, ctx, CallShare, req, shareAskFromWire, a.s.config.Handlers.Share, shareGrantToWire)
}

func shareAskToWire(a ShareAsk) *pb.ShareRequest {
	return &pb.ShareRequest{Seq: a.Seq, Held: a.Held, LeftMs: uint32(a.Left.Milliseconds()), Want: a.Want}
}

// isShare reports whether x is 0 to 1.
func isShare(x float64) bool { return x >= 0 && x <= 1 }

// maxLeft bounds the time of a share in milliseconds.
const maxLeft = 60_000

func shareAskFromWire(w *pb.ShareRequest) (a ShareAsk, err error) {
	if !isShare(w.Held) || !isShare(w.Want) || w.LeftMs > maxLeft {
		return a, malformed("a share of %g for %d ms, %g wanted", w.Held, w.LeftMs, w.Want)
	}
	return ShareAsk{Seq: w.Seq, Held: w.Held, Left: time.Duration(w.LeftMs) * time.Millisecond, Want: w.Want}, nil
}

func shareGrantToWire(g ShareGrant) *pb.ShareResponse {
	return &pb.ShareResponse{Share: g.Share, Agents: uint32(g.Agents), Requests: g.Requests, Bits: g.Bits}
}

func shareGrantFromWire(w *pb.ShareResponse) (g ShareGrant, err error) {
	limit := func(x float64) bool { return x >= 0 && !math.IsInf(x, 1) }
	if !isShare(w.Share) || w.Agents < 1 || w.Agents > maxAgents || !limit(w.Requests) || !limit(w.Bits) {
		return g, malformed("a share of %g for one of %d agents, of %g requests and %g bits", w.Share, w.Agents,
			w.Requests, w.Bits)
	}
	return ShareGrant{Share: w.Share, Agents: int(w.Agents), Requests: w.Requests, Bits: w.Bits}, nil
}
