package cluster

import (
	"fmt"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// The calls of an Exchange.
var (
	PushCall  = rpc.Method[pb.PushRequest, pb.PushResponse]{Call: rpc.CallPush, Request: checkPush}
	ClaimCall = rpc.Method[pb.ClaimRequest, pb.ClaimResponse]{Call: rpc.CallClaim, Request: checkClaim,
		Response: checkVerdicts}
	HandCall   = rpc.Method[pb.HandRequest, pb.HandResponse]{Call: rpc.CallHand, Request: checkHand}
	RecallCall = rpc.Method[pb.RecallRequest, pb.RecallResponse]{Call: rpc.CallRecall, Request: checkRecall,
		Response: checkRecalled}
)

// maxRecall bounds the URLs in one Recall.
const maxRecall = 64

func checkPush(q *pb.PushRequest) error {
	if q.Hops > MaxHops || q.Count > rpc.MaxData {
		return rpc.Malformedf("%d links after %d hops", q.Count, q.Hops)
	}
	return checkLinks(q.Links, q.Count)
}

// checkLinks decodes every link, because later code trusts them.
func checkLinks(links []byte, count uint32) error {
	if len(links) > rpc.MaxData {
		return fmt.Errorf("%w: %d octets of links", rpc.ErrTooLarge, len(links))
	}
	n := uint32(0)
	for rest := links; len(rest) > 0; n++ {
		l, used, err := link.Peek(rest)
		if err != nil || l.URL.IsZero() {
			return rpc.Malformedf("link %d of %d", n, count)
		}
		rest = rest[used:]
	}
	if n != count || n == 0 {
		return rpc.Malformedf("%d links, not %d", n, count)
	}
	return nil
}

func checkClaim(q *pb.ClaimRequest) error { return rpc.CheckHosts(q.Hosts) }

func checkVerdicts(q *pb.ClaimRequest, r *pb.ClaimResponse) error {
	if len(r.Verdicts) != len(q.Hosts) {
		return rpc.Malformedf("%d verdicts for %d hosts", len(r.Verdicts), len(q.Hosts))
	}
	for _, v := range r.Verdicts {
		if v < claimNothing || v > claimStranger {
			return rpc.Malformedf("verdict %d", v)
		}
	}
	return nil
}

func checkHand(q *pb.HandRequest) error { return rpc.CheckRecords(q.Count, q.Records) }

func checkRecall(q *pb.RecallRequest) error {
	if q.Count > maxRecall {
		return rpc.Malformedf("%d URLs to recall", q.Count)
	}
	return checkLinks(q.Links, q.Count)
}

func checkRecalled(q *pb.RecallRequest, r *pb.RecallResponse) error {
	if len(r.Answers) != int(q.Count) {
		return rpc.Malformedf("%d answers for %d URLs", len(r.Answers), q.Count)
	}
	rest := q.Links
	for i, a := range r.Answers {
		l, n, err := link.Peek(rest)
		if err != nil {
			return rpc.Malformedf("link %d of the question", i)
		}
		rest = rest[n:]
		if err := checkAnswer(a, l.URL); err != nil {
			return err
		}
	}
	return nil
}

// checkAnswer checks what another agent says that it knows of u.
func checkAnswer(a *pb.RecallAnswer, u weburl.URL) error {
	v := a.GetVerdict()
	if v < recallKnown || v > recallBlocked {
		return rpc.Malformedf("verdict %d of a URL", v)
	}
	if v != recallKnown {
		if len(a.Link) > 0 || len(a.State) > 0 {
			return rpc.Malformedf("a state of an unknown URL")
		}
		return nil
	}
	if len(a.State) == 0 || len(a.State) > visit.MaxState {
		return rpc.Malformedf("%d octets of a state", len(a.State))
	}
	if l, n, err := link.Peek(a.Link); err != nil || n != len(a.Link) || l.URL != u {
		return rpc.Malformedf("a state of another URL")
	}
	return nil
}
