package rpc

import (
	"cmp"
	"context"
	"math"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
)

const (
	// MaxDiscover bounds the hosts in one Discover.
	MaxDiscover = MaxClaim
	// MaxFollow is how long a Follow may wait for an entry.
	MaxFollow = time.Second
	// followSilence is how long an agent waits for the beginning of an answer to Follow, with the time that a
	// connection takes. So it calls another coordinator before its right to start visits ends.
	followSilence = MaxFollow + 2*time.Second
	// maxDead bounds After of a HostAnswer, and maxHeard the durations in a Report, which have 32 bits.
	maxDead  = 24 * time.Hour
	maxHeard = math.MaxUint32 * time.Millisecond
)

// A Discovery tells the coordinators of hosts whose agent the caller does not know.
type Discovery struct {
	Hosts []string
	// Unchecked asks to assign the hosts without looking up whether they exist.
	Unchecked bool
}

// A HostState is what the coordinators say about a host.
type HostState uint8

// The states.
const (
	// HostAssigned: an entry of the stream assigns the host to an agent.
	HostAssigned HostState = 1 + iota
	// HostComing: an entry will assign the host, or HostDead will be the next answer.
	HostComing
	// HostDead: the host has no address. Ask again after HostAnswer.After.
	HostDead
)

// A HostAnswer is the answer to a Discover for one host.
type HostAnswer struct {
	State HostState
	// After is zero unless State is HostDead. On the wire it is in milliseconds.
	After time.Duration
}

// A Follow asks for the entries from a number on. It is also the caller's sign of life.
type Follow struct {
	// From is the number of the first entry that the caller lacks, at least 1.
	From uint64
	// Wait is how long the coordinator waits for an entry if it has none, at most MaxFollow. On the wire it is in
	// milliseconds.
	Wait   time.Duration
	Report Report
	// Stamp is that of the coordinator's last answer, or 0. So the coordinator knows that the report is not older.
	Stamp uint64
}

// A Report is what an agent says about itself to the coordinators.
type Report struct {
	Capacity float64
	// Addr is host:port, the address at which the agent listens.
	Addr string
	// State is the state that the agent wants, with the values of package gossip.
	State uint8
	// Term is that of the last roster that the agent has applied.
	Term uint64
	// Hosts and URLs wait at the agent.
	Hosts, URLs uint64
	// Heard is the time since the last message of other agents. On the wire it is in milliseconds.
	Heard map[string]time.Duration
	// Settings must be equal for all agents, as in Hello.
	Settings map[string]string
}

// A Followed answers a Follow.
type Followed struct {
	// Entries are concatenated encodings of package assignment, from Follow.From on: at most MaxData bytes. Only
	// the caller decodes them.
	Entries []byte
	// Last is the number of the last entry that the coordinators have agreed on, and Term that of the last roster.
	Last, Term uint64
	// Member reports that the caller is up in the last roster.
	Member bool
	// Crawl is the crawl of the coordinators.
	Crawl ID
	// Stamp is for the caller's next Follow at the same coordinator.
	Stamp uint64
}

// A Finish tells the coordinators that all agents have agreed to end the crawl.
type Finish struct {
	// Term and Number are those of the last roster and the last entry of all agents.
	Term, Number uint64
}

// A NotLeader is the answer of a coordinator that does not lead.
type NotLeader struct {
	// Leader is the address of the coordinator that leads, or empty if the answering one knows of none.
	Leader string
}

func (n *NotLeader) Error() string {
	if n.Leader == "" {
		return "this coordinator does not lead, and knows of none that does"
	}
	return "this coordinator does not lead, the one at " + n.Leader + " does"
}

// notLeader reads the address of a leader from a response.
func notLeader(addr string) error {
	if addr != "" && checkAddress(addr) != nil {
		return malformed("leader %.64q", addr)
	}
	return &NotLeader{addr}
}

// Coordination executes the calls to a coordinator. The rules of Handlers hold here, too. A *NotLeader also reaches
// the caller as it is.
type Coordination struct {
	// Discover returns one answer for each host.
	Discover func(ctx context.Context, from Caller, d Discovery) ([]HostAnswer, error)
	// Follow may also be called by an agent that is not admitted. If this coordinator or the caller does not
	// belong to a crawl, their crawls were not compared: the handler decides.
	Follow func(ctx context.Context, from Caller, f Follow) (Followed, error)
	Finish func(ctx context.Context, from Caller, f Finish) error
	// Status returns at most MaxData bytes, which only people and tools read. Its caller may be of any crawl or
	// role.
	Status func(ctx context.Context, from Caller) ([]byte, error)
	// Forget takes an agent off the roster that does not run. Its caller has the keys of a coordinator and may be of
	// any crawl.
	Forget func(ctx context.Context, from Caller, agent string) error
}

// A Coordinator calls one coordinator, whose certificate must say that it is one. See Peer.
type Coordinator struct{ peer *Peer }

// Coordinator returns the Coordinator at addr.
func (c *Client) Coordinator(addr string) Coordinator {
	return Coordinator{c.known(addr, "", addr, coordinatorRole)}
}

// Peer returns what calls the coordinator.
func (c Coordinator) Peer() *Peer { return c.peer }

// Addr returns the address of the coordinator.
func (c Coordinator) Addr() string { return c.peer.addr }

// Discover asks for the state of hosts, and makes the coordinators assign those that are new. There is one answer for
// each host, in their order.
func (c Coordinator) Discover(ctx context.Context, d Discovery) (as []HostAnswer, err error) {
	err = c.peer.call(ctx, CallDiscover, func(ctx context.Context) error {
		res, err := unary[pb.DiscoverResponse](ctx, c.peer, CallDiscover, &pb.DiscoverRequest{Hosts: d.Hosts,
			Unchecked: d.Unchecked})
		if err == nil {
			as, err = hostAnswersFromWire(res, len(d.Hosts))
		}
		return err
	})
	return as, err
}

// Follow asks for entries. Without an answer within 3 s, the error is an ErrUnreachable.
func (c Coordinator) Follow(ctx context.Context, f Follow) (out Followed, err error) {
	err = c.peer.call(ctx, CallFollow, func(ctx context.Context) error {
		res, err := unary[pb.FollowResponse](ctx, c.peer, CallFollow, followToWire(f))
		if err == nil {
			out, err = followedFromWire(res, f.From)
		}
		return err
	})
	return out, err
}

// Finish returns when the coordinators have agreed that the crawl has ended.
func (c Coordinator) Finish(ctx context.Context, f Finish) error {
	return c.peer.call(ctx, CallFinish, func(ctx context.Context) error {
		_, err := unary[pb.FinishResponse](ctx, c.peer, CallFinish, &pb.FinishRequest{Term: f.Term, Number: f.Number})
		return err
	})
}

// Status returns what the coordinator says of itself.
func (c Coordinator) Status(ctx context.Context) (status []byte, err error) {
	err = c.peer.call(ctx, CallStatus, func(ctx context.Context) error {
		res, err := unary[pb.StatusResponse](ctx, c.peer, CallStatus, &pb.StatusRequest{})
		if err == nil {
			status, err = res.Status, checkBatch(res.Status)
		}
		return err
	})
	return status, err
}

// Forget takes an agent off the roster of which a person knows that it does not run. It returns when that is done.
func (c Coordinator) Forget(ctx context.Context, agent string) error {
	return c.peer.call(ctx, CallForget, func(ctx context.Context) error {
		_, err := unary[pb.ForgetResponse](ctx, c.peer, CallForget, &pb.ForgetRequest{Agent: agent})
		return err
	})
}

func discoveryFromWire(w *pb.DiscoverRequest) (Discovery, error) {
	return Discovery{w.Hosts, w.Unchecked}, checkHosts(w.Hosts)
}

func forgetFromWire(w *pb.ForgetRequest) (string, error) {
	if err := CheckName(w.Agent); err != nil {
		return "", malformed("%v", err)
	}
	return w.Agent, nil
}

func hostAnswersToWire(as []HostAnswer) *pb.DiscoverResponse {
	w := &pb.DiscoverResponse{States: make([]byte, len(as))}
	for i, a := range as {
		w.States[i] = byte(a.State)
		if a.State == HostDead {
			w.AfterMs = append(w.AfterMs, uint32(min(max(0, a.After), maxDead).Milliseconds()))
		}
	}
	return w
}

// hostAnswersFromWire reads the answers for a number of hosts.
func hostAnswersFromWire(w *pb.DiscoverResponse, hosts int) ([]HostAnswer, error) {
	if len(w.States) != hosts {
		return nil, malformed("%d answers for %d hosts", len(w.States), hosts)
	}
	as, after := make([]HostAnswer, hosts), w.AfterMs
	for i, b := range w.States {
		as[i].State = HostState(b)
		switch {
		case as[i].State < HostAssigned || as[i].State > HostDead:
			return nil, malformed("state %d of a host", b)
		case as[i].State != HostDead:
			continue
		case len(after) == 0:
			return nil, malformed("a dead host without a time")
		}
		if as[i].After = time.Duration(after[0]) * time.Millisecond; as[i].After > maxDead {
			return nil, malformed("a host that is dead for %d ms", after[0])
		}
		after = after[1:]
	}
	if len(after) > 0 {
		return nil, malformed("%d times without a dead host", len(after))
	}
	return as, nil
}

func followToWire(f Follow) *pb.FollowRequest {
	r := &pb.Report{
		Capacity: f.Report.Capacity, Address: f.Report.Addr, State: uint32(f.Report.State), Term: f.Report.Term,
		Hosts: f.Report.Hosts, Urls: f.Report.URLs, Settings: f.Report.Settings,
		HeardMs: make(map[string]uint32, len(f.Report.Heard)),
	}
	for name, d := range f.Report.Heard {
		r.HeardMs[name] = uint32(min(max(0, d), maxHeard).Milliseconds())
	}
	return &pb.FollowRequest{From: f.From, WaitMs: uint32(f.Wait.Milliseconds()), Report: r, Stamp: f.Stamp}
}

func followFromWire(w *pb.FollowRequest) (f Follow, err error) {
	if w.From == 0 || time.Duration(w.WaitMs)*time.Millisecond > MaxFollow {
		return f, malformed("follow from %d, waiting %d ms", w.From, w.WaitMs)
	}
	f = Follow{From: w.From, Wait: time.Duration(w.WaitMs) * time.Millisecond, Stamp: w.Stamp}
	f.Report, err = reportFromWire(w.Report)
	return f, err
}

func reportFromWire(w *pb.Report) (r Report, err error) {
	if w == nil {
		return r, malformed("no report")
	}
	if err := cmp.Or(checkCapacity(w.Capacity), checkAddress(w.Address), checkState(w.State),
		checkSettings(w.Settings)); err != nil {
		return r, err
	}
	if len(w.HeardMs) > maxAgents {
		return r, malformed("%d agents heard", len(w.HeardMs))
	}
	r = Report{Capacity: w.Capacity, Addr: w.Address, State: uint8(w.State), Term: w.Term,
		Hosts: w.Hosts, URLs: w.Urls, Heard: make(map[string]time.Duration, len(w.HeardMs)), Settings: w.Settings}
	for name, ms := range w.HeardMs {
		if err := CheckName(name); err != nil {
			return r, malformed("%v", err)
		}
		r.Heard[name] = time.Duration(ms) * time.Millisecond
	}
	return r, nil
}

func followedToWire(f Followed) *pb.FollowResponse {
	return &pb.FollowResponse{Entries: f.Entries, Last: f.Last, Term: f.Term, Member: f.Member, Crawl: f.Crawl[:],
		Stamp: f.Stamp}
}

// followedFromWire reads the answer to a Follow from a number on.
func followedFromWire(w *pb.FollowResponse, from uint64) (f Followed, err error) {
	if err := checkBatch(w.Entries); err != nil {
		return f, err
	}
	if w.Term > w.Last || len(w.Entries) > 0 && w.Last < from {
		return f, malformed("%d octets of entries from %d on, of %d, term %d", len(w.Entries), from, w.Last, w.Term)
	}
	f = Followed{Entries: w.Entries, Last: w.Last, Term: w.Term, Member: w.Member, Stamp: w.Stamp}
	f.Crawl, err = idFromWire(w.Crawl)
	return f, err
}

// shares bound the calls of one caller that run at once, so that none keeps the others out. The zero value is ready.
type shares struct {
	mu sync.Mutex
	n  map[share]int
}

type share struct {
	call Call
	name string
}

// most returns how many calls of a kind one caller may have, or 0 for no bound. These are more Follows than a Client
// makes, because a restarted agent may come back before its old calls have ended.
func (s share) most() int {
	switch s.call {
	case CallFollow:
		return 2 * askedFollows
	case CallDiscover:
		return askedBulk
	}
	return 0
}

// enter reports whether a caller may have one more call. Then leave must follow.
func (s *shares) enter(call Call, name string) bool {
	k := share{call, name}
	most := k.most()
	if most == 0 {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n[k] >= most {
		return false
	}
	if s.n == nil {
		s.n = map[share]int{}
	}
	s.n[k]++
	return true
}

func (s *shares) leave(call Call, name string) {
	k := share{call, name}
	if k.most() == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n[k]--; s.n[k] <= 0 {
		delete(s.n, k)
	}
}
