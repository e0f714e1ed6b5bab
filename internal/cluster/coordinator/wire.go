package coordinator

import (
	"context"
	"math"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/assignment"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
)

const (
	// MaxDiscover bounds the hosts in one Discover.
	MaxDiscover = rpc.MaxHosts
	// maxDead bounds After of a HostAnswer, and maxHeard the durations in a Report, which have 32 bits.
	maxDead  = 24 * time.Hour
	maxHeard = math.MaxUint32 * time.Millisecond
	// maxAgents bounds the agents in a Report.
	maxAgents = 4096
)

// The calls to a coordinator. On the wire, durations are in milliseconds.
var (
	// DiscoverCall asks for the state of hosts, and makes the coordinators assign those that are new.
	DiscoverCall = rpc.Method[pb.DiscoverRequest, pb.DiscoverResponse]{Call: rpc.CallDiscover,
		Request: checkDiscover, Response: checkDiscovered}
	// FollowCall asks for entries. An agent that is not admitted may make it. If this coordinator or the caller does
	// not belong to a crawl, their crawls were not compared: the handler decides. Without an answer within 3 s, the
	// error is an rpc.ErrUnreachable.
	FollowCall = rpc.Method[pb.FollowRequest, pb.FollowResponse]{Call: rpc.CallFollow, Request: checkFollow,
		Response: checkFollowed}
	// FinishCall tells that all agents have agreed to end the crawl.
	FinishCall = rpc.Method[pb.FinishRequest, pb.FinishResponse]{Call: rpc.CallFinish}
	// StatusCall asks for a status, which only people and tools read. Its caller may be of any crawl or role.
	StatusCall = rpc.Method[pb.StatusRequest, pb.StatusResponse]{Call: rpc.CallStatus,
		Response: func(_ *pb.StatusRequest, r *pb.StatusResponse) error { return rpc.CheckBatch(r.Status) }}
	// ForgetCall takes an agent off the roster that does not run. Its caller has the keys of a coordinator and may be
	// of any crawl.
	ForgetCall = rpc.Method[pb.ForgetRequest, pb.ForgetResponse]{Call: rpc.CallForget, Request: checkForget}
)

func checkDiscover(q *pb.DiscoverRequest) error { return rpc.CheckHosts(q.Hosts) }

// checkDiscovered checks that there is an answer for each host, and a time for each dead one.
func checkDiscovered(q *pb.DiscoverRequest, r *pb.DiscoverResponse) error {
	if len(r.States) != len(q.Hosts) {
		return rpc.Malformedf("%d answers for %d hosts", len(r.States), len(q.Hosts))
	}
	after := r.AfterMs
	for _, b := range r.States {
		switch s := HostState(b); {
		case s < HostAssigned || s > HostDead:
			return rpc.Malformedf("state %d of a host", b)
		case s != HostDead:
			continue
		case len(after) == 0:
			return rpc.Malformedf("a dead host without a time")
		case milliseconds(after[0]) > maxDead:
			return rpc.Malformedf("a host that is dead for %d ms", after[0])
		}
		after = after[1:]
	}
	if len(after) > 0 {
		return rpc.Malformedf("%d times without a dead host", len(after))
	}
	return nil
}

func checkFollow(q *pb.FollowRequest) error {
	if q.From == 0 || milliseconds(q.WaitMs) > rpc.MaxFollow {
		return rpc.Malformedf("follow from %d, waiting %d ms", q.From, q.WaitMs)
	}
	if len(q.Group) != len(rpc.ID{}) && len(q.Group) > 0 {
		return rpc.Malformedf("a group of %d octets", len(q.Group))
	}
	r := q.Report
	if r == nil {
		return rpc.Malformedf("no report")
	}
	if err := rpc.CheckCapacity(r.Capacity); err != nil {
		return err
	}
	if err := rpc.CheckAddress(r.Address); err != nil {
		return err
	}
	if r.State > math.MaxUint8 {
		return rpc.Malformedf("state %d", r.State)
	}
	if err := rpc.CheckSettings(r.Settings); err != nil {
		return err
	}
	if len(r.HeardMs) > maxAgents {
		return rpc.Malformedf("%d agents heard", len(r.HeardMs))
	}
	for name := range r.HeardMs {
		if err := rpc.CheckName(name); err != nil {
			return rpc.Malformedf("%v", err)
		}
	}
	return nil
}

func checkFollowed(q *pb.FollowRequest, r *pb.FollowResponse) error {
	if err := rpc.CheckBatch(r.Entries); err != nil {
		return err
	}
	if r.Term > r.Last || len(r.Entries) > 0 && r.Last < q.From {
		return rpc.Malformedf("%d octets of entries from %d on, of %d, term %d", len(r.Entries), q.From, r.Last, r.Term)
	}
	if len(r.Crawl) != len(rpc.ID{}) || len(r.Group) != len(rpc.ID{}) && len(r.Group) > 0 {
		return rpc.Malformedf("ids of %d and %d octets", len(r.Crawl), len(r.Group))
	}
	return nil
}

func checkForget(q *pb.ForgetRequest) error {
	if err := rpc.CheckName(q.Agent); err != nil {
		return rpc.Malformedf("%v", err)
	}
	return nil
}

func milliseconds(n uint32) time.Duration { return time.Duration(n) * time.Millisecond }

// Wire returns the request. Wait must not be longer than rpc.MaxFollow.
func (f Follow) Wire() *pb.FollowRequest {
	r := &pb.Report{Capacity: f.Report.Capacity, Address: f.Report.Addr, State: uint32(f.Report.State),
		Term: f.Report.Term, Hosts: f.Report.Hosts, Urls: f.Report.URLs, Settings: f.Report.Settings,
		HeardMs: make(map[string]uint32, len(f.Report.Heard))}
	for name, d := range f.Report.Heard {
		r.HeardMs[name] = uint32(min(max(0, d), maxHeard).Milliseconds())
	}
	return &pb.FollowRequest{From: f.From, WaitMs: uint32(f.Wait.Milliseconds()), Report: r, Stamp: f.Stamp,
		Group: f.Group[:]}
}

// FollowOf returns what a checked request says.
func FollowOf(q *pb.FollowRequest) Follow {
	r := q.Report
	f := Follow{From: q.From, Wait: milliseconds(q.WaitMs), Stamp: q.Stamp,
		Report: Report{Capacity: r.Capacity, Addr: r.Address, State: assignment.State(r.State), Term: r.Term,
			Hosts: r.Hosts, URLs: r.Urls, Heard: make(map[string]time.Duration, len(r.HeardMs)), Settings: r.Settings}}
	copy(f.Group[:], q.Group)
	for name, ms := range r.HeardMs {
		f.Report.Heard[name] = milliseconds(ms)
	}
	return f
}

// Wire returns the response.
func (f Followed) Wire() *pb.FollowResponse {
	return &pb.FollowResponse{Entries: f.Entries, Last: f.Last, Term: f.Term, Member: f.Member, Crawl: f.Crawl[:],
		Stamp: f.Stamp, Group: f.Group[:]}
}

// FollowedOf returns what a checked response says.
func FollowedOf(r *pb.FollowResponse) Followed {
	f := Followed{Entries: r.Entries, Last: r.Last, Term: r.Term, Member: r.Member, Crawl: [16]byte(r.Crawl),
		Stamp: r.Stamp}
	copy(f.Group[:], r.Group)
	return f
}

// HowOf returns how a request wants its hosts to be assigned. Coordinators of a version without kept take it for
// unchecked.
func HowOf(q *pb.DiscoverRequest) assignment.How {
	switch {
	case q.Kept:
		return assignment.Kept
	case q.Unchecked:
		return assignment.Unchecked
	}
	return assignment.LookedUp
}

// Discovered returns the response with an answer for each host.
func Discovered(as []HostAnswer) *pb.DiscoverResponse {
	r := &pb.DiscoverResponse{States: make([]byte, len(as))}
	for i, a := range as {
		r.States[i] = byte(a.State)
		if a.State == HostDead {
			r.AfterMs = append(r.AfterMs, uint32(min(max(0, a.After), maxDead).Milliseconds()))
		}
	}
	return r
}

// AnswersOf returns what a checked response says.
func AnswersOf(r *pb.DiscoverResponse) []HostAnswer {
	as, after := make([]HostAnswer, len(r.States)), r.AfterMs
	for i, b := range r.States {
		if as[i].State = HostState(b); as[i].State == HostDead {
			as[i].After, after = milliseconds(after[0]), after[1:]
		}
	}
	return as
}

// A Client calls one coordinator. Its methods block as those of a Peer do.
type Client struct{ Peer *rpc.Peer }

// Discover returns an answer for each host, in their order.
func (c Client) Discover(ctx context.Context, hosts []string, how assignment.How) ([]HostAnswer, error) {
	r, err := DiscoverCall.Ask(ctx, c.Peer, &pb.DiscoverRequest{Hosts: hosts, Unchecked: how != assignment.LookedUp,
		Kept: how == assignment.Kept})
	if err != nil {
		return nil, err
	}
	return AnswersOf(r), nil
}

// Follow asks for entries.
func (c Client) Follow(ctx context.Context, f Follow) (Followed, error) {
	r, err := FollowCall.Ask(ctx, c.Peer, f.Wire())
	if err != nil {
		return Followed{}, err
	}
	return FollowedOf(r), nil
}

// Finish returns when the coordinators have agreed that the crawl has ended. term and number are those of the last
// roster and the last entry of all agents.
func (c Client) Finish(ctx context.Context, term, number uint64) error {
	_, err := FinishCall.Ask(ctx, c.Peer, &pb.FinishRequest{Term: term, Number: number})
	return err
}

// Status returns what the coordinator says of itself.
func (c Client) Status(ctx context.Context) ([]byte, error) {
	r, err := StatusCall.Ask(ctx, c.Peer, new(pb.StatusRequest))
	if err != nil {
		return nil, err
	}
	return r.Status, nil
}

// Forget takes an agent off the roster of which a person knows that it does not run. It returns when that is done.
func (c Client) Forget(ctx context.Context, agent string) error {
	_, err := ForgetCall.Ask(ctx, c.Peer, &pb.ForgetRequest{Agent: agent})
	return err
}
