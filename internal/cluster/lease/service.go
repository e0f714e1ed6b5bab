package lease

import (
	"context"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/members"
	"github.com/orbweaver/orbweaver/internal/cluster/placement"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/wake"
)

const (
	// turnEvery is the interval of calls to other agents. It is also the time within which a visit that has lost its
	// lease is cut off.
	turnEvery = 250 * time.Millisecond
	// hostBatch is how many requests an agent makes at a host that others wait for. Each change costs about four
	// messages, so 200 requests keep the leases below 0.1 messages a page.
	hostBatch = 200
	// mostKept bounds the hosts of a point in Service.kept, and mostKnown bounds Service.known.
	mostKept  = 256
	mostKnown = 4096
)

// Parts are what a Service needs of its agent.
type Parts struct {
	Members     *members.Members
	Clock       clock.Clock
	Placer      Placer
	Connections Connections
	Running     *sync.WaitGroup // has the goroutines; an agent that leaves its cluster waits for it
	// ByPages reports that any agent may visit any host. Then few agents grant all points, and an agent keeps a host
	// that others want for a batch of requests. Otherwise each host has one agent.
	ByPages bool
}

// A Placer divides the points, as it divides the hosts.
type Placer interface {
	// Place returns which of the agents owns which point. The errors are those of package placement.
	Place(agents []placement.Owner) (placement.Placement, error)
}

// Connections are the open connections to hosts. Safe for concurrent use.
type Connections interface {
	// LetGo closes the idle connection to a host, and LetAllGo those to all hosts.
	LetGo(host string)
	LetAllGo()
}

// Visits are the visits of this agent, which need leases. Safe for concurrent use.
type Visits interface {
	// CutOff ends the visits in progress that use one of the points, because their leases are lost. It returns their
	// number. It does not block.
	CutOff(points []uint64) int
	// Leased tells for which points leases may have arrived. It returns when the frontier knows.
	Leased(points []uint64)
}

// A Service is an agent's part in the leases of its cluster. It implements frontier.Lease and frontier.HostLease,
// carries the calls between agents and follows the views. Safe for concurrent use.
//
//	frontier (dispatcher) -> Peer -> Call -> another agent's Peer
//	freed points -> dispatcher; lost points -> visits cut off
//
// It implements cluster.Leases.
type Service struct {
	parts Parts
	some  chan struct{} // freed is not empty
	hurry chan struct{} // there may be urgent calls

	// mu guards the fields below. It is never held across a call. The dispatcher waits for no other
	// lock.
	mu     sync.Mutex
	peer   *Peer // nil before Join
	view   *clusterView
	digest uint64                   // of the gossip view that view was made from
	known  map[AgentID]gossip.Agent // agents of this and earlier views
	coming map[AgentID]bool         // agents that were joining in the gossip view before
	before map[string]string        // agents of earlier runs: addresses by name
	freed  []uint64
	counts report.Leases
	kept   map[uint64]map[string]struct{} // hosts that this agent may have a connection to, by point; see Uses
}

// NewService returns the leases of an agent. Nothing is leased before Join.
func NewService(parts Parts) *Service {
	return &Service{parts: parts, some: make(chan struct{}, 1), hurry: make(chan struct{}, 1),
		known: map[AgentID]gossip.Agent{}}
}

// Join tells that this agent has joined its cluster. before are the agents that it has met in earlier runs: addresses
// by name.
func (s *Service) Join(before map[string]string) {
	self, cfg := s.parts.Members.Self, Config{Every: turnEvery}
	if s.parts.ByPages {
		cfg.Batch = hostBatch
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = maps.Clone(before)
	s.peer = New(agentID(self.Instance, self.Boot), cfg, s.parts.Clock.Now())
}

// Look applies a view of the cluster.
func (s *Service) Look(v *gossip.View) error {
	view, err := newClusterView(v, s.parts.Placer, s.parts.ByPages)
	if err != nil || view == nil {
		return err
	}
	digest := v.Digest()
	s.mu.Lock()
	defer s.done()
	if s.peer == nil {
		return nil // the run ends before the Peer exists
	}
	if s.digest = digest; !s.view.same(view) {
		view.fresh = s.coming
		view.follow(v, s.parts.Members.Gossip().Silent, s.known, s.before)
		if len(s.known) > mostKnown {
			clear(s.known) // from now on Over is false for all of them
		}
		maps.Copy(s.known, view.agents)
		s.view = view
		s.peer.Look(view, s.parts.Clock.Now())
	}
	s.coming = map[AgentID]bool{}
	for _, a := range v.Agents {
		if a.State == gossip.Joining {
			s.coming[agentID(a.Instance, a.Boot)] = true
		}
	}
	return nil
}

// Contact records that another agent answered a ping. digest is that of its view, sent the time of the ping.
func (s *Service) Contact(digest uint64, sent time.Time) {
	s.mu.Lock()
	defer s.done()
	if s.peer != nil && s.view != nil && digest == s.digest {
		now := s.parts.Clock.Now()
		s.peer.Contact(now.Add(-time.Since(sent)), now)
	}
}

// done collects the freed points, unlocks mu and wakes the dispatcher if there are any.
func (s *Service) done() {
	if s.peer != nil {
		s.freed = append(s.freed, s.peer.Freed()...)
	}
	some := len(s.freed) > 0
	s.letGo()
	s.mu.Unlock()
	if some {
		wake.Up(s.some)
	}
}

// letGo closes the connections to hosts whose leases were given back: another agent may contact them next. The caller
// holds mu.
func (s *Service) letGo() {
	if s.peer == nil {
		return
	}
	for _, point := range s.peer.Released() {
		hosts := s.kept[point]
		delete(s.kept, point)
		if len(hosts) >= mostKept {
			s.parts.Connections.LetAllGo()
		}
		for host := range hosts {
			s.parts.Connections.LetGo(host)
		}
	}
}

// Uses implements cluster.Leases. If each host has one agent, that agent keeps its connections.
func (s *Service) Uses(host string, points []uint64) {
	if !s.parts.ByPages {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept == nil {
		s.kept = map[uint64]map[string]struct{}{}
	}
	for _, point := range points {
		hosts := s.kept[point]
		if hosts == nil {
			hosts = map[string]struct{}{}
			s.kept[point] = hosts
		}
		if _, there := hosts[host]; !there && len(hosts) < mostKept {
			hosts[strings.Clone(host)] = struct{}{}
		}
	}
}

// Want implements frontier.Lease, as do the next four.
func (s *Service) Want(point uint64, quiet time.Duration, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.peer != nil { // links of an earlier run are queued before the Peer exists
		s.peer.Want(point, quiet, now)
	}
}

func (s *Service) Ready(point uint64, quiet time.Duration, now time.Time) (ok bool, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.peer == nil { // the run ends before the Peer exists
		return false, now.Add(turnEvery)
	}
	ok, at = s.peer.Ready(point, quiet, now)
	s.hasten()
	return ok, at
}

// hasten wakes tend if it has something to do. The caller holds mu.
func (s *Service) hasten() {
	if s.peer.Soon() {
		wake.Up(s.hurry)
	}
}

func (s *Service) Begin(now time.Time, points ...uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.peer.Begin(now, points...)
}

func (s *Service) Used(point uint64, end time.Time, quiet time.Duration, requested bool, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.peer.Used(point, end, quiet, requested, now)
	s.hasten()
}

func (s *Service) Leave(point uint64, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.peer.Leave(point, now)
}

// Keep implements frontier.HostLease, as do Expect and Kept.
func (s *Service) Keep(point, key uint64, n frontier.LeaseNote, now time.Time) {
	out := Note{Key: key, Delay: n.Delay, Slow: n.Slow, Print: n.Robots}
	if !n.NotBefore.IsZero() {
		out.Rest = n.NotBefore.Sub(now)
	}
	if !n.SlowUntil.IsZero() {
		out.Pause = n.SlowUntil.Sub(now)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.peer.Keep(point, out, now)
}

func (s *Service) Expect(point uint64, due, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.peer.Expect(point, due, now)
}

func (s *Service) Kept(point, key uint64, now time.Time) (n frontier.LeaseNote, ok bool) {
	s.mu.Lock()
	v, ago, ok := s.peer.Kept(point, key, now)
	s.mu.Unlock()
	if !ok {
		return n, false
	}
	n = frontier.LeaseNote{Delay: v.Delay, Slow: v.Slow, Robots: v.Print}
	if ago >= 0 {
		n.Ended = now.Add(-ago)
	}
	if v.Rest > 0 {
		n.NotBefore = now.Add(v.Rest)
	}
	if v.Slow > 0 || v.Pause != 0 {
		n.SlowUntil = now.Add(v.Pause)
	}
	return n, true
}

func (s *Service) Grip() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.peer.Grip(s.parts.Clock.Now())
}

func (s *Service) Counts() report.Leases {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts
}

// Answer answers a call of another agent.
func (s *Service) Answer(_ context.Context, from rpc.Caller, q *pb.LeaseRequest) (*pb.LeaseResponse, error) {
	b, err := ParseBatch(q.Batch)
	if err != nil {
		return nil, &rpc.Refusal{Reason: "lease", Text: err.Error()}
	}
	s.mu.Lock()
	if s.peer == nil || b.From != agentID(from.Instance, from.Boot) {
		s.mu.Unlock()
		return nil, rpc.ErrAgain
	}
	defer s.done()
	ans, err := s.peer.Serve(b, s.parts.Clock.Now())
	if err != nil {
		return nil, rpc.ErrAgain // one of the two agents does not have the other's view yet
	}
	s.counts.Messages++
	wake.Up(s.hurry)
	return &pb.LeaseResponse{Batch: ans.AppendTo(nil)}, nil
}

// Tend makes the calls, cuts off visits and reports freed points until ctx is done.
func (s *Service) Tend(ctx context.Context, visits Visits) {
	s.parts.Running.Go(func() {
		tick, wake := time.NewTicker(turnEvery), time.NewTimer(time.Hour)
		defer tick.Stop()
		defer wake.Stop()
		for {
			select {
			case <-tick.C:
				s.turn(ctx, visits)
			case <-s.hurry:
				s.hurryUp(ctx)
			case <-wake.C:
				s.hurryUp(ctx)
			case <-ctx.Done():
				return
			}
			if d := s.wake(); d > 0 {
				wake.Reset(d)
			}
		}
	})
	s.parts.Running.Go(func() {
		for {
			select {
			case <-s.some:
			case <-ctx.Done():
				return
			}
			s.mu.Lock()
			freed := s.freed
			s.freed = nil
			s.mu.Unlock()
			visits.Leased(freed)
		}
	})
}

// hurryUp makes the calls that cannot wait for the next turn.
func (s *Service) hurryUp(ctx context.Context) {
	s.mu.Lock()
	s.carry(ctx, s.peer.Hurry(s.parts.Clock.Now()))
}

func (s *Service) wake() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.peer == nil {
		return 0
	}
	return s.peer.Wake()
}

// turn does the periodic work, every turnEvery.
func (s *Service) turn(ctx context.Context, visits Visits) {
	s.mu.Lock()
	if s.peer == nil {
		s.mu.Unlock()
		return
	}
	now := s.parts.Clock.Now()
	lost, grip := s.peer.Lost(now), s.peer.Grip(now)
	s.mu.Unlock()
	var cut int
	if len(lost) > 0 {
		cut = visits.CutOff(lost)
	}
	if !grip { // other agents may soon contact our hosts
		s.parts.Connections.LetAllGo()
	}
	s.mu.Lock()
	s.counts.CutOff += int64(cut)
	s.carry(ctx, s.peer.Calls(now))
}

// carry makes calls in the background. The caller holds mu; carry releases it.
func (s *Service) carry(ctx context.Context, calls []*Batch) {
	view := s.view
	s.counts.Messages += int64(len(calls))
	for _, b := range calls {
		s.counts.Asked += int64(len(b.Asks))
	}
	s.done()
	for _, b := range calls {
		raw := b.AppendTo(nil) // encode now: the Peer keeps b
		s.parts.Running.Go(func() { s.call(ctx, view.agents[b.To], b, raw) })
	}
}

// call makes one call and gives the answer to the Peer.
func (s *Service) call(ctx context.Context, to gossip.Agent, b *Batch, raw []byte) {
	var ans *Batch
	res, err := Call.Ask(ctx, s.parts.Members.To(to), &pb.LeaseRequest{Batch: raw})
	if err == nil {
		ans, err = ParseBatch(res.Batch)
	}
	s.mu.Lock()
	defer s.done()
	if err == nil && ans.From == b.To {
		err = s.peer.Answered(ans, s.parts.Clock.Now())
	}
	if err != nil || ans.From != b.To {
		s.peer.Failed(b, s.parts.Clock.Now())
	}
	wake.Up(s.hurry)
}
