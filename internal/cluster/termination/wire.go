package termination

import (
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
)

const maxReason = 64 // octets

// PulseCall asks an agent whether it is idle. The question has the digest of the caller's view, the answer that of the
// agent's. Pages counts the HTTP responses other than redirects and robots.txt. It is one more if an agent is gone,
// because nobody knows what that agent fetched. Lost reports that the agent has lists of lost archives whose pages are
// to be fetched again.
var PulseCall = rpc.Method[pb.PulseRequest, pb.PulseResponse]{Call: rpc.CallPulse}

// EndCall tells an agent that all agents are idle: by the digest of the caller's view, and with the last Activity of
// that agent. The answer is whether it still is. With Prepare, the call only asks whether the agent would end.
var EndCall = rpc.Method[pb.EndRequest, pb.EndResponse]{Call: rpc.CallEnd, Request: checkEnd}

func checkEnd(e *pb.EndRequest) error {
	if len(e.Reason) > maxReason {
		return rpc.Malformedf("reason %.64q", e.Reason)
	}
	return nil
}
