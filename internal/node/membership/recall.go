package membership

import (
	"context"
	"fmt"

	"github.com/orbweaver/orbweaver/internal/cluster"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// Recall implements cluster.Exchange.
func (c *Membership) Recall(ctx context.Context, agent string, links []byte, count int,
	accept bool) ([]cluster.Recalled, error) {
	p, err := c.Members.Peer(agent)
	if err != nil {
		return nil, err
	}
	as, err := p.Recall(ctx, rpc.Recall{Links: rpc.Links{Count: count, Data: links}, Accept: accept})
	if err != nil {
		return nil, err
	}
	out := make([]cluster.Recalled, len(as))
	for i, a := range as {
		switch a.Verdict {
		case rpc.RecallKnown:
			l, _, err := link.Decode(a.Link)
			if err != nil {
				return nil, fmt.Errorf("recall: %w", err)
			}
			out[i] = cluster.Recalled{RecallVerdict: cluster.RecallKnown, Link: l, State: a.State}
		case rpc.RecallNone:
			out[i].RecallVerdict = cluster.RecallNone
		case rpc.RecallBlocked:
			out[i].RecallVerdict = cluster.RecallBlocked
		}
	}
	return out, nil
}

// answerRecall answers what this agent's strategy knows of URLs.
func (c *Membership) answerRecall(ctx context.Context, _ rpc.Caller, r rpc.Recall) ([]rpc.RecallAnswer, error) {
	if c.Division.Owners() == nil {
		return nil, rpc.ErrAgain
	}
	links, err := decodeLinks(r.Links)
	if err != nil {
		return nil, err
	}
	as, err := c.Cluster.Recalled(ctx, links, r.Accept)
	if err != nil {
		return nil, again(err)
	}
	out := make([]rpc.RecallAnswer, len(as))
	for i, a := range as {
		switch {
		case a.RecallVerdict == cluster.RecallKnown && len(a.State) <= rpc.MaxState:
			out[i] = rpc.RecallAnswer{Verdict: rpc.RecallKnown, Link: a.Link.AppendTo(nil), State: a.State}
		case a.RecallVerdict == cluster.RecallBlocked:
			out[i].Verdict = rpc.RecallBlocked
		case a.RecallVerdict == cluster.RecallLater:
			out[i].Verdict = rpc.RecallLater
		default:
			out[i].Verdict = rpc.RecallNone
		}
	}
	return out, nil
}

// decodeLinks returns links that another agent has sent.
func decodeLinks(l rpc.Links) ([]link.Link, error) {
	links := make([]link.Link, 0, l.Count)
	for rest := l.Data; len(rest) > 0; {
		link, n, err := link.Decode(rest)
		if err != nil {
			return nil, err
		}
		links, rest = append(links, link), rest[n:]
	}
	return links, nil
}
