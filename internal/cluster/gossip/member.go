package gossip

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/orbweaver/orbweaver/internal/wake"
)

const (
	// interval is the interval of the failure detector. All other times are multiples of it.
	interval = time.Second
	// maxLost bounds how many lost agents a Member remembers and tries again.
	maxLost = 1024
	// patience bounds the time of a Hello.
	patience = 10 * time.Second
)

// ErrSelf reports an agent that has called its own address.
var ErrSelf = errors.New("that address is our own")

// ErrNobody reports a cluster in which no agent answers.
var ErrNobody = errors.New("no agent of the cluster answers")

// Calls reach agents before they are members.
type Calls interface {
	// Dial opens a stream of gossip. If name is not empty, the other side must have proved to be the agent of that
	// name.
	Dial(ctx context.Context, addr, name string) (net.Conn, error)
	// Hello asks the agent at a call address whether this agent may join, and returns the result of its Admit: nil,
	// ErrRefused or ErrSelf. Any other error means that the agent did not answer.
	Hello(ctx context.Context, addr string) error
}

// Config configures a Member: its identity and its network.
type Config struct {
	// Self is what this agent announces. The Member sets its State.
	Self Agent
	// Advertise is the address at which other agents reach Packets and Streams.
	Advertise netip.AddrPort
	// Label separates the gossip of several crawls on one network. It has at most 255 bytes.
	Label string
	// Secret encrypts packets and streams (AES-256-GCM, 32 bytes). Nil, for loopback, sends
	// them in plain text.
	Secret []byte

	// The Member uses Packets and Streams until Close. Close closes only Streams.
	Packets net.PacketConn
	Streams net.Listener
	Calls   Calls
	Watcher Watcher // nil: nobody is told

	// Seed is the random seed of this package. Zero means a random seed. The library
	// memberlist has its own, which cannot be set.
	Seed uint64
	// Ended has View.Ended of an earlier run.
	Ended []Ending
	// Log receives memberlist's log. Nil drops it.
	Log io.Writer
}

// living is an agent in the view, with its gossip address.
type living struct {
	Agent
	gossip string
}

// A Member is this agent's part of the cluster. It is safe for concurrent use.
type Member struct {
	config  Config
	view    atomic.Pointer[View]
	changes chan struct{}
	failed  chan error
	rivals  chan Agent
	differ  chan string // names of agents with another view, as memberlist writes them
	ctx     context.Context
	stop    context.CancelFunc
	wg      sync.WaitGroup

	heard *hearing
	// life guards list: Join and Close hold it, also while memberlist starts.
	life sync.Mutex
	list *memberlist.Memberlist

	// mu guards the fields below. memberlist may hold its own lock when it calls code that takes
	// mu. So mu is never held during a call to memberlist.
	mu       sync.Mutex
	self     Agent
	living   map[string]living
	lost     map[[16]byte]living
	gone     map[[16]byte]Ending // by instance: lives that announced Gone, or say that they will
	reserved map[string]reservation
	tries    map[string]*try
	seeds    []string
	met      map[Life]string // the name of each life
}

// Open returns the Member of an agent without a cluster. It uses the network only after Join or
// Found.
func Open(cfg Config) (*Member, error) {
	cfg.Self.State = Joining
	if err := cfg.Self.check(); err != nil {
		return nil, err
	}
	switch {
	case cfg.Packets == nil || cfg.Streams == nil || cfg.Calls == nil:
		return nil, errors.New("gossip: the configuration has no network")
	case !cfg.Advertise.IsValid() || cfg.Advertise.Addr().IsUnspecified() || cfg.Advertise.Port() == 0:
		return nil, fmt.Errorf("gossip: other agents cannot reach %s", cfg.Advertise)
	case cfg.Secret != nil && len(cfg.Secret) != 32:
		return nil, fmt.Errorf("gossip: the secret has %d octets, want 32", len(cfg.Secret))
	case len(cfg.Label) > memberlist.LabelMaxSize:
		return nil, fmt.Errorf("gossip: the label has %d octets, at most 255", len(cfg.Label))
	}
	cfg.Log = cmp.Or(cfg.Log, io.Discard)
	if cfg.Seed == 0 {
		cfg.Seed = rand.Uint64()
	}
	m := &Member{
		config: cfg, self: cfg.Self, changes: make(chan struct{}, 1), failed: make(chan error, 1),
		rivals: make(chan Agent, 1), differ: make(chan string, 1), living: map[string]living{},
		lost: map[[16]byte]living{}, gone: map[[16]byte]Ending{},
		reserved: map[string]reservation{}, tries: map[string]*try{},
		heard: newHearing(), met: map[Life]string{{cfg.Self.Instance, cfg.Self.Boot}: cfg.Self.Name},
	}
	m.ctx, m.stop = context.WithCancel(context.Background())
	m.mu.Lock()
	for _, e := range cfg.Ended {
		m.wentAway(e)
	}
	m.publish()
	m.mu.Unlock()
	return m, nil
}

// View returns the present view of this agent.
func (m *Member) View() *View { return m.view.Load() }

// Changes returns a channel that receives a value after a change of the View. Several changes
// may give one value.
func (m *Member) Changes() <-chan struct{} { return m.changes }

// Failed returns a channel that receives the *ConflictError because of which this agent must
// stop.
func (m *Member) Failed() <-chan error { return m.failed }

func (m *Member) fail(err error) {
	select {
	case m.failed <- err:
	default: // the first error is enough
	}
}

// publish makes a new View. The caller holds mu.
func (m *Member) publish() {
	old := m.view.Load()
	v := &View{Seq: 1, Agents: []Agent{m.self}}
	for name, a := range m.living {
		if name != m.self.Name {
			v.Agents = append(v.Agents, a.Agent)
		}
	}
	for _, a := range m.lost {
		v.Lost = append(v.Lost, a.Agent)
	}
	v.Ended = slices.AppendSeq(v.Ended, maps.Values(m.gone))
	slices.SortFunc(v.Agents, order)
	slices.SortFunc(v.Lost, order)
	slices.SortFunc(v.Ended, func(a, b Ending) int { return slices.Compare(a.Instance[:], b.Instance[:]) })
	if old != nil {
		if slices.Equal(old.Agents, v.Agents) && slices.Equal(old.Lost, v.Lost) && slices.Equal(old.Ended, v.Ended) {
			return
		}
		v.Seq = old.Seq + 1
	}
	m.view.Store(v)
	wake.Up(m.changes)
}

// settings returns memberlist's configuration, with the reasons for its times.
func (m *Member) settings(t *transport) *memberlist.Config {
	c := memberlist.DefaultLANConfig()
	c.Name, c.Label, c.SecretKey, c.Transport = m.config.Self.Name, m.config.Label, m.config.Secret, t
	c.Delegate, c.Events, c.Alive = delegate{m}, delegate{m}, delegate{m}
	c.Ping = pings{m, t}
	c.Logger = log.New(complaints{m.config.Watcher, m.config.Log}, "", log.LstdFlags)
	// In each interval an agent pings one other agent. If no answer comes within half of the
	// interval, it asks three others to ping that agent, and tries a stream. If all of that fails
	// by the end of the interval, it suspects the agent.
	const i = interval
	c.ProbeInterval, c.ProbeTimeout = i, i/2
	c.IndirectChecks = 3
	// A suspected agent has this long to show that it lives:
	//
	//	3 · max(1, log10 n) intervals, if another agent suspects it as well,
	//	twice that otherwise.
	//
	// So agents of a cluster of ten drop a dead agent 4 to 8 intervals after its death: one until
	// it is pinged, one until the ping has failed, 3 to 6 for the suspicion. With half of that,
	// agents drop living ones at 20 % packet loss, because three packets in a row get lost.
	c.SuspicionMult, c.SuspicionMaxTimeoutMult = 3, 2
	// If the pings of an agent fail, and the agents that it asked for help do not report a failure,
	// the agent suspects its own network. It then waits up to this many times as long (Lifeguard).
	c.AwarenessMaxMultiplier = 4
	c.GossipInterval, c.GossipNodes = i/5, 3
	c.RetransmitMult = 4
	// An agent that was stopped for half a minute hears that it counts as dead, and refutes it.
	c.GossipToTheDeadTime = 60 * i
	// Two agents compare all they know at this interval. It repairs what gossip has lost, if the
	// answers to pings have not shown it earlier (see compare).
	c.PushPullInterval = 15 * i
	c.TCPTimeout = 5 * i
	// A dead agent's name may be used from another address at once. Admit has already decided
	// whether an agent may have the name.
	c.DeadNodeReclaimTime = time.Nanosecond
	// All messages are small, and a decompressor would be one more target for attacks.
	c.EnableCompression = false
	c.DNSConfigPath = "" // the Member resolves names itself
	return c
}

// begin starts gossip, once. The caller holds life.
func (m *Member) begin() error {
	if m.ctx.Err() != nil {
		return errors.New("gossip: closed")
	}
	if m.list != nil {
		return nil
	}
	t := newTransport(&m.config, m.config.Advertise, m.heard)
	list, err := memberlist.Create(m.settings(t))
	if err != nil {
		t.Shutdown()
		return fmt.Errorf("gossip: %w", err)
	}
	m.list = list
	m.wg.Go(func() { m.keepTrying(list) })
	m.wg.Go(func() { m.compare(list) })
	m.wg.Go(func() {
		for {
			select {
			case other := <-m.rivals:
				m.judgeRival(other)
			case <-m.ctx.Done():
				return
			}
		}
	})
	return nil
}

// Found starts a cluster of this agent alone. The Member keeps trying the addresses of an
// earlier Join.
func (m *Member) Found() error {
	m.life.Lock()
	defer m.life.Unlock()
	return m.begin()
}

// Join calls the agents at the call addresses addrs, one after the other, again and again. It
// returns nil when one admits this agent, an ErrRefused when one refuses it, or an ErrNobody
// when ctx ends. It skips this agent's own address; if there is no other, Join does what Found
// does. Gossip begins only after an agent has admitted this one.
func (m *Member) Join(ctx context.Context, addrs []string) error {
	m.mu.Lock()
	m.seeds = slices.Clone(addrs)
	m.mu.Unlock()
	m.forget(m.config.Self.Addr)
	seeds := m.forget(m.config.Advertise.String())
	if len(seeds) == 0 {
		return m.Found()
	}
	chance := rand.New(rand.NewPCG(m.config.Seed, 1))
	var last error
	for round := 1; ; round++ {
		for _, addr := range seeds {
			err := m.join(ctx, addr)
			if err == nil || errors.Is(err, ErrRefused) {
				return err
			}
			if errors.Is(err, ErrSelf) {
				seeds = m.forget(addr)
				continue
			}
			last = fmt.Errorf("%s: %w", addr, err)
			if ctx.Err() != nil {
				break
			}
		}
		if len(seeds) == 0 {
			return m.Found()
		}
		timer := time.NewTimer(pause(interval/2, 5*interval, round, chance.Float64()))
		select {
		case <-timer.C:
			continue
		case <-ctx.Done():
		case <-m.ctx.Done():
		}
		timer.Stop()
		return fmt.Errorf("%w: %w", ErrNobody, last)
	}
}

// forget removes a seed and returns the remaining ones.
func (m *Member) forget(addr string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seeds = slices.DeleteFunc(slices.Clone(m.seeds), func(a string) bool { return a == addr })
	return m.seeds
}

func (m *Member) join(ctx context.Context, addr string) error {
	hello, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := m.config.Calls.Hello(hello, addr); err != nil {
		return err
	}
	at, err := resolve(hello, addr)
	if err != nil {
		return err
	}
	m.life.Lock()
	err = m.begin()
	list := m.list
	m.life.Unlock()
	if err != nil {
		return err
	}
	_, err = list.Join(at)
	return err
}

// resolve returns the IP addresses behind a call address, each with its port.
func resolve(ctx context.Context, addr string) ([]string, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, ip := range ips {
		out = append(out, netip.AddrPortFrom(ip.Unmap(), uint16(n)).String())
	}
	return out, nil
}

// ask calls Hello for an address until patience or the Member ends.
func (m *Member) ask(addr string) error {
	ctx, cancel := context.WithTimeout(m.ctx, patience)
	defer cancel()
	return m.config.Calls.Hello(ctx, addr)
}

// Announce announces this agent's state to all agents: Up, then Leaving, or Up again if all
// others leave, too. It returns when one agent has been told, there is no other agent, or ctx
// ends. Gossip tells the others later.
func (m *Member) Announce(ctx context.Context, s State) error {
	m.mu.Lock()
	m.self.State = s
	m.publish()
	m.mu.Unlock()
	m.life.Lock()
	list := m.list
	m.life.Unlock()
	if list == nil {
		return nil
	}
	if err := list.UpdateNode(timeLeft(ctx)); err != nil {
		return fmt.Errorf("announce that we are %s: %w", s, err)
	}
	return nil
}

// Leave announces that this agent has handed everything over and goes, so that others do not
// take its end for a failure. An agent that still has hosts announces Leaving first. The Member
// listens until Close.
func (m *Member) Leave(ctx context.Context) error {
	err := m.Announce(ctx, Gone)
	m.life.Lock()
	defer m.life.Unlock()
	if m.list == nil || m.ctx.Err() != nil {
		return err
	}
	if lerr := m.list.Leave(timeLeft(ctx)); lerr != nil {
		err = errors.Join(err, fmt.Errorf("leave: %w", lerr))
	}
	return err
}

// timeLeft returns the time until ctx ends, for memberlist, to which 0 means forever.
func timeLeft(ctx context.Context) time.Duration {
	end, ok := ctx.Deadline()
	if !ok {
		return patience
	}
	return max(time.Until(end), time.Millisecond)
}

// Close ends gossip. Without a Leave before, the other agents believe this agent dead.
func (m *Member) Close() error {
	m.stop()
	m.life.Lock()
	defer m.life.Unlock()
	var err error
	if m.list != nil {
		err = m.list.Shutdown()
	}
	m.wg.Wait()
	return err
}

// delegate has memberlist's callbacks. memberlist calls them under its lock.
type delegate struct{ m *Member }

// NodeMeta returns what this agent announces about itself.
func (d delegate) NodeMeta(int) []byte {
	d.m.mu.Lock()
	defer d.m.mu.Unlock()
	return appendMeta(nil, d.m.self)
}

// NotifyMsg is never called: no agent sends messages.
func (delegate) NotifyMsg([]byte) {}

// GetBroadcasts returns nothing: an agent broadcasts nothing else.
func (delegate) GetBroadcasts(int, int) [][]byte { return nil }

// goneLen is the length of one entry of LocalState: an instance, the boot in 8 octets, and 1 for an agent that has left
// for good, else 0.
const goneLen = 16 + 8 + 1

// LocalState returns the lives that ended in order, goneLen octets each. When two agents compare all
// they know, memberlist tells that an agent left, but not its last announcement.
func (d delegate) LocalState(bool) []byte {
	d.m.mu.Lock()
	defer d.m.mu.Unlock()
	var b []byte
	for _, e := range d.m.gone {
		b = binary.BigEndian.AppendUint64(append(b, e.Instance[:]...), e.Boot)
		if e.Left {
			b = append(b, 1)
		} else {
			b = append(b, 0)
		}
	}
	return b
}

// MergeRemoteState processes the LocalState of another agent. memberlist calls it after its events.
func (d delegate) MergeRemoteState(b []byte, _ bool) {
	m := d.m
	m.mu.Lock()
	defer m.mu.Unlock()
	for ; len(b) >= goneLen; b = b[goneLen:] {
		e := Ending{Life{[16]byte(b), binary.BigEndian.Uint64(b[16:])}, b[24] == 1}
		if !m.isThere(e.Instance) {
			m.wentAway(e)
		}
	}
	m.publish()
}

// wentAway notes that a life ended in order, unless a later life of the instance is lost: that one
// has not. The caller holds mu.
func (m *Member) wentAway(e Ending) {
	if m.lost[e.Instance].Boot > e.Boot {
		return
	}
	if was := m.gone[e.Instance]; was.Boot > e.Boot || was.Life == e.Life && was.Left {
		e = was
	}
	if len(m.gone) < maxLost {
		m.gone[e.Instance] = e
	}
	delete(m.lost, e.Instance)
}

// isThere reports whether an instance lives and has not announced Gone. The caller holds mu.
func (m *Member) isThere(i [16]byte) bool {
	for _, a := range m.living {
		if a.Instance == i && a.State != Gone {
			return true
		}
	}
	return m.self.Instance == i
}

// NotifyAlive checks an announcement before memberlist accepts it.
func (d delegate) NotifyAlive(n *memberlist.Node) error {
	a, err := parseMeta(n.Name, n.Meta)
	if err != nil {
		return err
	}
	if a.Name == d.m.config.Self.Name {
		d.m.rival(a)
	}
	return nil
}

// NotifyJoin is called for an agent that has joined.
func (d delegate) NotifyJoin(n *memberlist.Node) { d.m.lives(n) }

// NotifyUpdate is called for an agent that has changed its announcement.
func (d delegate) NotifyUpdate(n *memberlist.Node) { d.m.lives(n) }

// NotifyLeave is called for an agent that is dead or has left.
func (d delegate) NotifyLeave(n *memberlist.Node) {
	m := d.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if was, ok := m.living[n.Name]; ok && n.Name != m.self.Name {
		delete(m.living, n.Name)
		m.miss(was)
		m.publish()
	}
}

func (m *Member) lives(n *memberlist.Node) {
	a, err := parseMeta(n.Name, n.Meta)
	if err != nil {
		return // NotifyAlive has refused it
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if a.Name == m.self.Name {
		return
	}
	if len(m.met) < maxLost {
		m.met[Life{a.Instance, a.Boot}] = a.Name
	}
	// A machine came back with an empty disk before its death was noticed.
	if was, ok := m.living[a.Name]; ok && was.Instance != a.Instance {
		m.miss(was)
	}
	m.living[a.Name] = living{a, netip.AddrPortFrom(addrOf(n.Addr), n.Port).String()}
	delete(m.lost, a.Instance)
	switch {
	case a.State == Gone:
		m.wentAway(Ending{Life: Life{a.Instance, a.Boot}})
	case a.State != Leaving || m.gone[a.Instance].Boot < a.Boot: // otherwise it has said that it ends
		delete(m.gone, a.Instance)
	}
	delete(m.reserved, a.Name)
	m.publish()
}

func addrOf(ip net.IP) netip.Addr {
	a, _ := netip.AddrFromSlice(ip)
	return a.Unmap()
}

// miss remembers an agent that disappeared without announcing Gone. The caller holds mu.
func (m *Member) miss(was living) {
	end, gone := m.gone[was.Instance]
	if gone = gone && end.Boot >= was.Boot || was.State == Gone; !gone && len(m.lost) < maxLost {
		m.lost[was.Instance] = was
		delete(m.gone, was.Instance)
	}
}

// Leaves notes that an agent, in a life, has said that it leaves for good. It need not announce Gone any more, unless
// it announces Up before.
func (m *Member) Leaves(l Life) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wentAway(Ending{l, true})
	m.publish()
}
