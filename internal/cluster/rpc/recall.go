package rpc

import (
	"context"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// MaxRecall bounds the URLs in one call, MaxState the state of one URL.
const (
	MaxRecall = 64
	MaxState  = 64 << 10
)

// A Recall asks what the strategy of an agent knows of URLs.
type Recall struct {
	Links Links // without hops
	// Accept reports that the answering agent owns the URLs. It accepts those that it does not know.
	Accept bool
}

// A RecallAnswer is the answer to a Recall for one URL.
type RecallAnswer struct {
	Verdict RecallVerdict
	// Link is the encoded link to the URL by which it was found, and State the strategy's state of
	// it. Both are empty unless Verdict is RecallKnown.
	Link, State []byte
}

// A RecallVerdict says what an agent knows of a URL.
type RecallVerdict uint8

// The verdicts.
const (
	// RecallKnown: the strategy has a state of the URL.
	RecallKnown RecallVerdict = 1 + iota
	// RecallLater: the answer is not known yet. Ask again.
	RecallLater
	// RecallNone: the strategy has no state of the URL, and does not expect one.
	RecallNone
	// RecallBlocked: the URL waits until the operator allows visits to its host.
	RecallBlocked
)

// Recall asks what the agent's strategy knows of URLs. There is an answer for each, in their order.
func (p *Peer) Recall(ctx context.Context, r Recall) (as []RecallAnswer, err error) {
	err = p.call(ctx, CallRecall, func(ctx context.Context) error {
		res, err := unary[pb.RecallResponse](ctx, p, CallRecall, recallToWire(r))
		if err == nil {
			as, err = recallAnswersFromWire(res, r.Links)
		}
		return err
	})
	return as, err
}

func recallToWire(r Recall) *pb.RecallRequest {
	return &pb.RecallRequest{Count: uint32(r.Links.Count), Links: r.Links.Data, Accept: r.Accept}
}

func recallFromWire(w *pb.RecallRequest) (Recall, error) {
	if w.Count > MaxRecall {
		return Recall{}, malformed("%d URLs to recall", w.Count)
	}
	r := Recall{Links: Links{Count: int(w.Count), Data: w.Links}, Accept: w.Accept}
	return r, r.Links.check("")
}

// recallAnswersToWire leaves out what does not fit into one message. The caller asks for it again.
func recallAnswersToWire(as []RecallAnswer) *pb.RecallResponse {
	w := &pb.RecallResponse{Answers: make([]*pb.RecallAnswer, len(as))}
	left := MaxData
	for i, m := range as {
		if left -= len(m.Link) + len(m.State); left < 0 || len(m.State) > MaxState {
			m = RecallAnswer{Verdict: RecallLater}
		}
		w.Answers[i] = &pb.RecallAnswer{Verdict: uint32(m.Verdict), Link: m.Link, State: m.State}
	}
	return w
}

// recallAnswersFromWire reads the answers to a question for links.
func recallAnswersFromWire(w *pb.RecallResponse, asked Links) ([]RecallAnswer, error) {
	if len(w.Answers) != asked.Count {
		return nil, malformed("%d answers for %d URLs", len(w.Answers), asked.Count)
	}
	as := make([]RecallAnswer, asked.Count)
	rest := asked.Data
	for i, m := range w.Answers {
		link, n, err := link.Peek(rest)
		if err != nil {
			return nil, malformed("link %d of the question", i)
		}
		rest = rest[n:]
		if as[i], err = recallAnswerFromWire(m, link.URL); err != nil {
			return nil, err
		}
	}
	return as, nil
}

func recallAnswerFromWire(w *pb.RecallAnswer, u weburl.URL) (RecallAnswer, error) {
	verdict := RecallVerdict(min(w.GetVerdict(), uint32(RecallBlocked)+1))
	if verdict < RecallKnown || verdict > RecallBlocked {
		return RecallAnswer{}, malformed("verdict %d of a URL", w.GetVerdict())
	}
	if verdict != RecallKnown {
		if len(w.Link) > 0 || len(w.State) > 0 {
			return RecallAnswer{}, malformed("a state of an unknown URL")
		}
		return RecallAnswer{Verdict: verdict}, nil
	}
	if len(w.State) == 0 || len(w.State) > MaxState {
		return RecallAnswer{}, malformed("%d octets of a state", len(w.State))
	}
	if link, n, err := link.Peek(w.Link); err != nil || n != len(w.Link) || link.URL != u {
		return RecallAnswer{}, malformed("a state of another URL")
	}
	return RecallAnswer{verdict, w.Link, w.State}, nil
}
