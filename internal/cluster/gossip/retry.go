package gossip

import (
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/hashicorp/memberlist"
)

// Pauses between two tries to find a lost agent, in intervals. The tries go on while the Member
// runs, because a partition may last for days.
const firstPause, lastPause = 1, 30

// A try counts the tries of an address, and has the time of the next one.
type try struct {
	count int
	next  time.Time
}

// pause returns the wait after a number of tries. It doubles from first to last. Of that, chance (0
// to 1) selects between a half and all.
func pause(first, last time.Duration, tries int, chance float64) time.Duration {
	d := last
	if tries < 16 {
		d = min(last, first<<max(0, tries-1))
	}
	return time.Duration(float64(d) * (0.5 + chance/2))
}

// A target is an address at which an agent should answer and none does.
type target struct {
	addr, name string // a gossip address if name is known; else a call address
}

// due returns the targets to try now, and when to look again.
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
			// It was lost just now, or is a seed that has not answered yet.
			s = &try{next: now.Add(pause(interval*firstPause, interval*lastPause, 0,
				chance.Float64()))}
			m.tries[t.addr] = s
		}
		if !now.Before(s.next) {
			s.count++
			s.next = now.Add(pause(interval*firstPause, interval*lastPause, s.count,
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

// keepTrying tries to find lost agents. memberlist pings only living agents, so without these tries
// the halves of a partition would never find each other again. One answer is enough, because then
// the two agents compare all they know.
func (m *Member) keepTrying(list *memberlist.Memberlist) {
	chance := rand.New(rand.NewPCG(m.config.Seed, 2))
	ticker := time.NewTicker(interval / 2)
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
		list.Join([]string{t.name + "/" + t.addr}) // after an error, the target is tried again
		return
	}
	// The agent at this address is unknown, so it is asked as in Join.
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
