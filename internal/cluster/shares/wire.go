package shares

import (
	"math"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
)

const (
	maxLeft   = 60_000 // milliseconds of a share
	maxAgents = 4096
)

// Call asks the grantor for a share. Shares are 0 to 1, and limits a second, of all agents together, by the grantor's
// clock; a limit of 0 is none.
var Call = rpc.Method[pb.ShareRequest, pb.ShareResponse]{Call: rpc.CallShare, Request: checkAsk, Response: checkGrant}

// isShare reports whether x is 0 to 1.
func isShare(x float64) bool { return x >= 0 && x <= 1 }

// isLimit reports whether x is a limit of a rate.
func isLimit(x float64) bool { return x >= 0 && !math.IsInf(x, 1) }

func checkAsk(q *pb.ShareRequest) error {
	if !isShare(q.Held) || !isShare(q.Want) || q.LeftMs > maxLeft {
		return rpc.Malformedf("a share of %g for %d ms, %g wanted", q.Held, q.LeftMs, q.Want)
	}
	return nil
}

func checkGrant(_ *pb.ShareRequest, g *pb.ShareResponse) error {
	if !isShare(g.Share) || g.Agents < 1 || g.Agents > maxAgents || !isLimit(g.Requests) || !isLimit(g.Bits) {
		return rpc.Malformedf("a share of %g for one of %d agents, of %g requests and %g bits", g.Share, g.Agents,
			g.Requests, g.Bits)
	}
	return nil
}
