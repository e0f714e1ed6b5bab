package testweb

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// tables hold what the tracker knows of hosts, addresses and domains since the last reset.
type tables struct {
	promise Promise
	began   time.Time
	hosts   atomic.Int64
	most    int // maximum number of addresses in a shard
	shards  [shards]shard
}

const shards = 64

// A shard is a part of the tables.
type shard struct {
	mu       sync.Mutex           // guards the maps, and the connections of addresses
	made     map[int64]*hostState // the Origin's hosts, by number
	named    map[string]*hostState
	addrs    map[[4]byte]*addrState
	domains  map[uint64]*domainState // by hash of the name
	overflow *hostState              // stands for all hosts beyond Config.MaxHosts
}

// newTables returns empty tables for the given number of hosts, and for a few more addresses.
func newTables(p Promise, began time.Time, hosts int64) *tables {
	tab := &tables{promise: p, began: began, most: int(hosts/shards)*5/4 + 256}
	for i := range tab.shards {
		tab.shards[i] = shard{
			made: map[int64]*hostState{}, named: map[string]*hostState{}, addrs: map[[4]byte]*addrState{},
			domains: map[uint64]*domainState{},
		}
	}
	return tab
}

func (tab *tables) newAddr(a [4]byte) *addrState {
	return &addrState{addr: a, group: group{kind: byAddr, promised: int64(tab.promise.AddrDelay), minGap: -1,
		run: tab.promise.newRun()}}
}

func (tab *tables) shardOf(n uint64) *shard { return &tab.shards[n*0x9e3779b97f4a7c15>>58] }

func (tab *tables) addrShard(a [4]byte) *shard {
	return tab.shardOf(uint64(a[0])<<24 | uint64(a[1])<<16 | uint64(a[2])<<8 | uint64(a[3]))
}

func addrName(a [4]byte) string { return netip.AddrFrom4(a).String() }

// addr returns the state of an address, nil if there are too many addresses. The caller holds the shard's lock.
func (s *shard) addr(tab *tables, a [4]byte) *addrState {
	st := s.addrs[a]
	if st == nil && len(s.addrs) < tab.most {
		st = tab.newAddr(a)
		s.addrs[a] = st
	}
	return st
}

// addrOf returns the state of the address to which c is connected; nil if there are too many addresses.
func (t *tracker) addrOf(c *conn, tab *tables) *addrState {
	if c.tab != tab || c.addr == nil {
		a := c.local.As4()
		s := tab.addrShard(a)
		s.mu.Lock()
		c.addr = s.addr(tab, a)
		s.mu.Unlock()
		c.tab, c.state = tab, nil
	}
	return c.addr
}

// domain returns the state of the registered domain of h, a host of these tables.
func (t *tracker) domain(tab *tables, name string, h *hostState) *domainState {
	hash := maphash.String(t.seed, name)
	s := tab.shardOf(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.domains[hash]
	if d == nil {
		d = &domainState{first: h, group: group{kind: bySite, promised: int64(tab.promise.SiteDelay), minGap: -1,
			run: tab.promise.newRun()}}
		s.domains[hash] = d
	}
	return d
}

// hostOf returns the state of a host that does not belong to the Origin. st is nil for unknownHost, without a domain.
func (t *tracker) hostOf(name string, st *site) *hostState {
	tab := t.tab.Load()
	s := tab.shardOf(maphash.String(t.seed, name))
	s.mu.Lock()
	h := s.named[name]
	s.mu.Unlock()
	if h != nil {
		return h
	}
	n := tab.newHost(noNumber)
	n.more().namedHost = &namedHost{name: name, site: st, known: map[uint64]urlCount{}, names: map[uint64]string{}}
	if st != nil {
		n.domain = t.domain(tab, SiteOf(name), n)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if h = s.named[name]; h == nil {
		h = n
		s.named[name] = h
	}
	return h
}

func (tab *tables) newHost(number int64) *hostState {
	return &hostState{number: number, group: group{promised: int64(tab.promise.HostDelay), minGap: -1,
		run: tab.promise.newRun()}}
}

// originHost returns the state of a host of the Origin. c remembers the last one.
func (t *tracker) originHost(c *conn, number int64) *hostState {
	tab := t.tab.Load()
	t.addrOf(c, tab)
	if c.state == nil || c.state.number != number {
		c.state = t.originState(tab, number)
	}
	return c.state
}

func (t *tracker) originState(tab *tables, number int64) *hostState {
	s := tab.shardOf(uint64(number))
	s.mu.Lock()
	h := s.made[number]
	s.mu.Unlock()
	if h != nil {
		return h
	}
	if tab.hosts.Add(1) > t.hostLimit {
		tab.hosts.Add(-1)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.overflow == nil {
			s.overflow = &hostState{number: overflowNumber}
		}
		return s.overflow
	}
	n := tab.newHost(number)
	n.domain = t.domain(tab, t.origin.Host(number).Site, n)
	s.mu.Lock()
	defer s.mu.Unlock()
	if h = s.made[number]; h == nil {
		h = n
		s.made[number] = h
	} else {
		tab.hosts.Add(-1)
	}
	return h
}
