package standing

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/cluster/orders"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/cluster/shares"
	"github.com/orbweaver/orbweaver/internal/node/verbs"
)

const (
	// spreadEvery is how often an agent looks whether another one lacks orders.
	spreadEvery = time.Second
	// spreadAgain is how long it waits before it sends the same orders again.
	spreadAgain = 10 * time.Second
	// tellTime bounds the time to tell another agent of a page of orders, and to tell all agents of a new order.
	tellTime = 3 * time.Second
	// learnTime bounds how long an agent asks for the orders of the others before its first visit. learnAgain is how
	// long it waits before it asks again.
	learnTime, learnAgain = 15 * time.Second, 200 * time.Millisecond
	// aheadMost bounds how far the clock of an agent that has got an order may be ahead.
	aheadMost = 24 * time.Hour
)

// toldOrders are the orders that another agent was told of last.
type toldOrders struct {
	boot          uint64
	digest, other [32]byte // of our set, and of the agent's after that
	at            time.Time
	unknown       []string // verbs that the agent does not know
}

// merge adds orders of another agent. They are durable and in force when it returns.
func (s *Orders) merge(ctx context.Context, encoded [][]byte) error {
	var list []orders.Order
	latest := uint64(s.cfg.Clock.Now().Add(aheadMost).UnixMilli()) << 16
	for _, b := range encoded {
		o, n, err := orders.Decode(b)
		if err != nil || n != len(b) {
			return fmt.Errorf("%w: an order of another agent: %w", rpc.ErrMalformed, orders.ErrOrder)
		}
		if o.Clock > latest { // it would make all later orders as late
			return &rpc.Refusal{Reason: "clock", Text: fmt.Sprintf("order %s is of %s, more than %s ahead of this "+
				"agent's clock: set the clocks, and give it again", o.ID(), o.At.Format(time.RFC3339), aheadMost)}
		}
		list = append(list, o)
	}
	for _, o := range s.set.Merge(list) {
		s.note(o)
	}
	return s.keep(ctx)
}

const (
	// maxOrders bounds the orders in one message, and maxOrder the bytes of one order.
	maxOrders = 4096
	maxOrder  = 4 << 10
)

// Call sends encoded orders to another agent, and asks for those that the caller lacks. Without an error, the orders
// that were sent are durable there. Package orders checks more of an order than its size.
var Call = rpc.Method[pb.OrdersRequest, pb.OrdersResponse]{Call: rpc.CallOrders,
	Request:  func(q *pb.OrdersRequest) error { return checkOrders(q.Orders, q.Digest) },
	Response: func(_ *pb.OrdersRequest, r *pb.OrdersResponse) error { return checkAnswer(r) },
}

// checkOrders checks orders, and the digest of a set.
func checkOrders(orders [][]byte, digest []byte) error {
	if len(digest) != sha256.Size {
		return rpc.Malformedf("digest of %d octets", len(digest))
	}
	if len(orders) > maxOrders {
		return fmt.Errorf("%w: %d orders", rpc.ErrTooLarge, len(orders))
	}
	size := 0
	for i, o := range orders {
		if len(o) == 0 {
			return rpc.Malformedf("order %d is empty", i)
		}
		if len(o) > maxOrder {
			return fmt.Errorf("%w: order %d of %d octets", rpc.ErrTooLarge, i, len(o))
		}
		size += len(o)
	}
	if size > rpc.MaxData {
		return fmt.Errorf("%w: %d octets of orders", rpc.ErrTooLarge, size)
	}
	return nil
}

// Serve makes a server answer other agents about orders, and about the rate, before it runs.
func (s *Orders) Serve(server *rpc.Server) {
	Call.Serve(server, s.Answer)
	shares.Call.Serve(server, s.Rates.Answer)
}

// Answer answers another agent that tells of its orders. The answer has the digest of the set, and orders if the
// caller's set is another one.
func (s *Orders) Answer(ctx context.Context, _ rpc.Caller, q *pb.OrdersRequest) (*pb.OrdersResponse, error) {
	if err := s.merge(ctx, q.Orders); err != nil {
		return nil, err
	}
	digest := s.set.Digest()
	answer := &pb.OrdersResponse{Digest: digest[:]}
	if !bytes.Equal(answer.Digest, q.Digest) {
		answer.Orders, _, answer.More = s.page(orders.Mark{})
	}
	answer.Unknown = s.lacks()
	if err := checkAnswer(answer); err != nil {
		return nil, fmt.Errorf("the answer is invalid: %v", err) // a failure of this agent, and not of the caller
	}
	return answer, nil
}

// maxUnknown bounds the verbs in an answer, and the octets of each.
const maxUnknown = 64

// lacks returns the verbs of orders that stand which this version does not know.
func (s *Orders) lacks() (list []string) {
	for _, o := range s.set.Standing() {
		if verbs.Unknown(o) && !slices.Contains(list, o.Verb) && len(list) < maxUnknown && len(o.Verb) <= maxUnknown {
			list = append(list, o.Verb)
		}
	}
	return list
}

// checkAnswer returns an error unless an answer's orders and verbs are within their bounds.
func checkAnswer(r *pb.OrdersResponse) error {
	if len(r.Unknown) > maxUnknown ||
		slices.ContainsFunc(r.Unknown, func(v string) bool { return v == "" || len(v) > maxUnknown }) {
		return fmt.Errorf("%w: verbs that are not known: at most %[2]d, of at most %[2]d octets", rpc.ErrTooLarge,
			maxUnknown)
	}
	return checkOrders(r.Orders, r.Digest)
}

// lacking returns an error if an agent, which does not know the verbs unknown, does not obey one of the orders.
func lacking(given []orders.Order, unknown []string) error {
	for _, o := range given {
		if !o.Off && slices.Contains(unknown, o.Verb) {
			return fmt.Errorf("its version does not know the verb %s: it keeps the order and passes it on, but does "+
				"not obey it", o.Verb)
		}
	}
	return nil
}

// pageBytes bounds the orders in one message.
const pageBytes = 256 << 10

// page returns the encoded orders after a mark that fit into one message.
func (s *Orders) page(after orders.Mark) (encoded [][]byte, next orders.Mark, more bool) {
	list, next, more := s.set.Page(after, pageBytes)
	for _, o := range list {
		encoded = append(encoded, o.AppendTo(nil))
	}
	return encoded, next, more
}

// tell pushes all orders to an agent.
func (s *Orders) tell(ctx context.Context, p *rpc.Peer) (theirs [32]byte, unknown []string, err error) {
	for after, more := (orders.Mark{}), true; more; {
		digest := s.set.Digest()
		q := &pb.OrdersRequest{Digest: digest[:]}
		q.Orders, after, more = s.page(after)
		answer, err := s.exchange(ctx, p, q)
		if err != nil {
			return theirs, nil, err
		}
		theirs, unknown = [32]byte(answer.Digest), answer.Unknown
		if err := s.merge(ctx, answer.Orders); err != nil {
			return theirs, nil, err
		}
	}
	return theirs, unknown, nil
}

// exchange sends one page of orders.
func (s *Orders) exchange(ctx context.Context, p *rpc.Peer, q *pb.OrdersRequest) (*pb.OrdersResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, tellTime)
	defer cancel()
	return Call.Ask(ctx, p, q)
}

// spread tells the agents that may lack orders; with now, also those that were told lately. It returns a result for
// each other agent.
func (s *Orders) spread(ctx context.Context, now bool) map[string]error {
	m := s.cfg.Members
	if m == nil || m.Gossip() == nil {
		return nil
	}
	results := map[string]error{}
	var mu sync.Mutex // guards results
	var all sync.WaitGroup
	for _, a := range m.View().Agents {
		digest := s.set.Digest()
		if a.Name == m.Self.Name || !now && !s.due(a.Name, a.Boot, digest) {
			continue
		}
		all.Go(func() {
			theirs, unknown, err := s.tell(ctx, m.To(a))
			if err == nil {
				s.toldMu.Lock()
				s.told[a.Name] = toldOrders{a.Boot, digest, theirs, s.cfg.Clock.Now(), unknown}
				s.toldMu.Unlock()
			}
			mu.Lock()
			results[a.Name] = err
			mu.Unlock()
		})
	}
	all.Wait()
	return results
}

// due reports whether an agent may lack an order of a set with the digest.
func (s *Orders) due(agent string, boot uint64, digest [32]byte) bool {
	if digest == noOrders {
		return false
	}
	s.toldMu.Lock()
	t, ok := s.told[agent]
	s.toldMu.Unlock()
	return !ok || t.boot != boot || t.digest != digest || t.other != digest && s.cfg.Clock.Now().Sub(t.at) > spreadAgain
}

// noOrders is the digest of an empty set.
var noOrders = orders.NewSet().Digest()

// Tend tells other agents of orders that they lack, until ctx is done.
func (s *Orders) Tend(ctx context.Context) {
	tick := time.NewTicker(spreadEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.spread(ctx, false)
		case <-ctx.Done():
			return
		}
	}
}

// Learn asks the other agents for their orders before this one begins to crawl, until it has all orders of those that
// answer. An answer has one page at most; the others push the rest, so Learn asks until the sets are equal.
func (s *Orders) Learn(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, learnTime)
	defer cancel()
	for {
		if results := s.spread(ctx, true); len(results) == 0 || s.equal(results) {
			return
		}
		if !clock.Pause(ctx, learnAgain) {
			return
		}
	}
}

// equal reports whether an agent has answered, and all that did have the same orders as this one.
func (s *Orders) equal(results map[string]error) (any bool) {
	digest := s.set.Digest()
	s.toldMu.Lock()
	defer s.toldMu.Unlock()
	for name, err := range results {
		if err != nil {
			continue
		}
		if s.told[name].other != digest {
			return false
		}
		any = true
	}
	return any
}
