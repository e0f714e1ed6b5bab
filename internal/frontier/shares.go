package frontier

import (
	"net/netip"
)

// shares knows what hosts share: addresses, sites, and the leases of these. It decides which of the ready hosts nothing
// holds back.
type shares struct {
	cfg    *Config
	time   *clock
	extras *extras
	hosts  mover

	addrs          map[netip.Addr]*bucket
	sites          map[string]*bucket
	paced          map[string]bool // sites with a pace, see Repace
	groups         map[groupKey]share
	groupsByNumber []*group // groups by number; 0: unbound
	freeGroups     []share  // numbers of removed groups
	unbound        *group   // the hosts that no address or site holds back

	aloneAt, aloneIn table // the hosts that are alone at an address, in a site

	ready    heap[*group]  // groups that may be fetched, by level and request number
	freeing  heap[*bucket] // buckets that hold groups back, by time
	fading   heap[*bucket] // buckets that hold no group back, by time
	heldBack int           // ready hosts that an address or a site holds back

	awaiting     map[uint64]*bucket // buckets that wait for a lease, by point; each has a timer
	leaseBegan   bool               // a request has begun since remind last asked for a lease
	asked        map[uint64]int64   // when it began to wait for a lease that is missing, by point
	awaitedLeast int                // this many of them are never too many
	leaseWaits   int64              // how often a host whose turn it was began to wait
	points       [2]uint64          // scratch memory
}

// A mover moves hosts between the heaps of a frontier.
type mover interface {
	// leave removes h from the heap that it is in, if any.
	leave(h *host)
	// place puts h where it belongs. h must be in no heap and not in process.
	place(h *host)
}

// newShares returns the shares of no host.
func newShares(cfg *Config, time *clock, extras *extras, hosts mover) shares {
	s := shares{cfg: cfg, time: time, extras: extras, hosts: hosts,
		addrs:    map[netip.Addr]*bucket{},
		sites:    map[string]*bucket{},
		paced:    map[string]bool{},
		groups:   map[groupKey]share{},
		awaiting: map[uint64]*bucket{},
		asked:    map[uint64]int64{},
		aloneAt:  newTable(),
		aloneIn:  newTable(),
		unbound:  newGroup(nil, nil),
	}
	for _, site := range cfg.Paced {
		s.paced[site] = true
	}
	s.groupsByNumber = []*group{s.unbound}
	s.unbound.refs = 1
	return s
}

// overhead returns the memory of groups, buckets and the tables of hosts that are alone.
func (s *shares) overhead() int64 {
	return int64(s.aloneAt.n+s.aloneIn.n)*aloneOverhead +
		int64(len(s.groups))*groupOverhead + int64(len(s.addrs)+len(s.sites))*bucketOverhead
}
