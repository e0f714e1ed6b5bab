package gossip

import (
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/hashicorp/memberlist"
)

// Pauses between two tries to find one that is lost, in intervals. It is tried
// for as long as we run: a partition may last for days.
const firstPause, lastPause = 1, 30

// A try is how often and when next an address is tried.
type try struct {
	count int
	next  time.Time
}

// pause is how long to wait after so many tries: twice as long each time, from
// first to last, and of that between a half and all, by chance (0 to 1).
func pause(first, last time.Duration, tries int, chance float64) time.Duration {
	d := last
	if tries < 16 {
		d = min(last, first<<max(0, tries-1))
	}
	return time.Duration(float64(d) * (0.5 + chance/2))
}

// A target is an address that nobody answers from, who should.
type target struct {
	addr, name string // of gossip, if name is known; else a call address
}

// due are the targets whose time has come, and when to look again.
func (m *Member) due(now time.Time, chance *rand.Rand) []target {
	m.mu.Lock()
	defer m.mu.Unlock()
	here := map[string]bool{m.self.Addr: true, m.config.Advertise.String(): true}
	for _, a := range m.living {
		here[a.Addr], here[a.gossip] = true, true
	}
	var all []target
	for _, a := range m.lost {
		if !here[a.gossip] {
			all = append(all, target{a.gossip, a.Name})
		}
	}
	for _, addr := range m.seeds {
		if !here[addr] && !slices.ContainsFunc(all, func(t target) bool { return t.addr == addr }) {
			all = append(all, target{addr: addr})
		}
	}
	slices.SortFunc(all, func(a, b target) int { return m.next(a).Compare(m.next(b)) })
	wanted := map[string]bool{}
	var due []target
	for _, t := range all {
		wanted[t.addr] = true
		s := m.tries[t.addr]
		if s == nil {
			// It was lost just now, or is a first seed that nobody answered at.
			s = &try{next: now.Add(pause(m.config.Interval*firstPause, m.config.Interval*lastPause, 0,
				chance.Float64()))}
			m.tries[t.addr] = s
		}
		if !now.Before(s.next) {
			s.count++
			s.next = now.Add(pause(m.config.Interval*firstPause, m.config.Interval*lastPause, s.count,
				chance.Float64()))
			due = append(due, t)
		}
	}
	for addr := range m.tries {
		if !wanted[addr] {
			delete(m.tries, addr)
		}
	}
	return due
}

func (m *Member) next(t target) time.Time {
	if s := m.tries[t.addr]; s != nil {
		return s.next
	}
	return time.Time{}
}

// keepTrying looks for those who are lost. memberlist pings only the living, so
// without it the halves of a partition would never find each other again. One
// answer is enough: the two compare all they know.
func (m *Member) keepTrying(list *memberlist.Memberlist) {
	chance := rand.New(rand.NewPCG(m.config.Seed, 2))
	ticker := time.NewTicker(m.config.Interval / 2)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-m.ctx.Done():
			return
		}
		for _, t := range m.due(time.Now(), chance) {
			if m.ctx.Err() != nil {
				return
			}
			m.retry(list, t)
		}
	}
}

func (m *Member) retry(list *memberlist.Memberlist, t target) {
	if t.name != "" {
		list.Join([]string{t.name + "/" + t.addr}) // an error is one more try
		return
	}
	// Nobody knows who is there now: it is asked as at the start.
	if err := m.ask(t.addr); err != nil {
		if errors.Is(err, ErrRefused) || errors.Is(err, ErrSelf) {
			m.forget(t.addr)
		}
		return
	}
	if at, err := resolve(m.ctx, t.addr); err == nil {
		list.Join(at)
	}
}
