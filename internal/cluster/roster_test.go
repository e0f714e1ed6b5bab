package cluster

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/cespare/xxhash/v2"

	"github.com/orbweaver/orbweaver/internal/cluster/placement"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A roster is a view: the names of the living agents. others has the names that another machine has
// taken over, with the place of its mate. If ring is true, they divide the hosts by UbiCrawler's
// ring.
type roster struct {
	names, others string
	ring          bool
}

// id returns the place of the mate with a name.
func (r *roster) id(name string) int {
	for _, o := range strings.Fields(r.others) {
		if n, id, _ := strings.Cut(o, "="); n == name {
			name = "a" + id
		}
	}
	id, err := strconv.Atoi(name[1:])
	if err != nil {
		panic(err)
	}
	return id
}

// with returns the roster with a mate, in the place of another mate with the same name.
func (r *roster) with(m *mate) *roster {
	w := r.without(m.name)
	names := append(strings.Fields(w.names), m.name)
	slices.Sort(names)
	w.names = strings.Join(names, " ")
	if m.name != fmt.Sprint("a", m.index) {
		w.others = strings.TrimSpace(fmt.Sprintf("%s %s=%d", w.others, m.name, m.index))
	}
	return w
}

func (r *roster) without(name string) *roster {
	names := slices.DeleteFunc(strings.Fields(r.names), func(n string) bool { return n == name })
	others := slices.DeleteFunc(strings.Fields(r.others), func(o string) bool { return strings.HasPrefix(o, name+"=") })
	return &roster{strings.Join(names, " "), strings.Join(others, " "), r.ring}
}

// has reports whether a mate is in the roster.
func (r *roster) has(m *mate) bool {
	return slices.Contains(strings.Fields(r.names), m.name) && r.id(m.name) == m.index
}

type barred struct {
	lost   *mate
	before *roster // nil: of all hosts
}

// nearest returns the agents in a host's order.
func (r *roster) nearest(host uint64) []string {
	names := strings.Split(r.names, " ")
	if r.ring {
		return ringOrder(names, host)
	}
	slices.SortFunc(names, func(a, b string) int {
		return int(int64(xxhash.Sum64String(fmt.Sprint(a, host))>>1) -
			int64(xxhash.Sum64String(fmt.Sprint(b, host))>>1))
	})
	return names
}

// onRing reports which half of the models divide hosts by the ring. The other half uses rendezvous
// hashing without buckets.
func onRing(seed uint64) bool { return seed/2%2 == 1 }

// rings has the rings that models have used, by the names of the agents.
var rings sync.Map

// ringOrder returns the agents in a host's order on a ring with few replicas, on which the agents'
// shares differ much.
func ringOrder(names []string, host uint64) []string {
	key := strings.Join(names, " ")
	ring, ok := rings.Load(key)
	if !ok {
		var agents []placement.Agent
		for _, n := range names {
			agents = append(agents, placement.Agent{Name: n, Capacity: 1})
		}
		r, err := placement.NewRing(agents, 10)
		if err != nil {
			panic(err)
		}
		ring, _ = rings.LoadOrStore(key, r)
	}
	order := make([]string, 0, len(names))
	for _, a := range ring.(*placement.Ring).Nearest(nil, host, len(names)) {
		order = append(order, a.Name)
	}
	return order
}

type mateHeirs struct {
	roster
	self string
}

func (h mateHeirs) Heir(host uint64) string {
	for _, n := range h.nearest(host)[:min(2, len(strings.Split(h.names, " ")))] {
		if n != h.self {
			return n
		}
	}
	return ""
}

// sees records a new view.
func (m *mate) sees(v *roster) {
	m.moves.Lock()
	defer m.moves.Unlock()
	m.views = append(m.views, v)
	m.view.Store(v)
}

// Tenure implements Placement.
func (m *mate) Tenure(host string) (owner string, mine bool, since uint64) {
	m.moves.Lock()
	defer m.moves.Unlock()
	key := weburl.HostKey(host)
	i := len(m.views) - 1
	if owner = m.views[i].nearest(key)[0]; owner != m.name {
		return owner, false, 0
	}
	if m.barred(key) {
		return "", false, 0
	}
	for i > 0 && m.views[i-1].nearest(key)[0] == m.name {
		i--
	}
	if i == 0 && m.boots == 1 && !m.late {
		return owner, true, 0
	}
	return owner, true, uint64(m.boots*1000 + i + 1)
}

// Before implements Placement.
func (m *mate) Before(host string) ([]string, int) {
	return slices.DeleteFunc(m.view.Load().nearest(weburl.HostKey(host)), func(a string) bool { return a == m.name }), 2
}

// View implements Placement.
func (m *mate) View() uint64 { return xxhash.Sum64String(fmt.Sprint(*m.view.Load())) }

// Had implements Placement.
func (m *mate) Had(host string) (ever, began bool) {
	m.moves.Lock()
	defer m.moves.Unlock()
	key := weburl.HostKey(host)
	for i, v := range m.views {
		mine := v.nearest(key)[0] == m.name
		ever, began = ever || mine, began || mine && i == 0 && m.boots == 1 && !m.late
	}
	return ever || m.boots > 1 || m.took.Load(), began
}

// Inheriting implements Placement.
func (m *mate) Inheriting() bool { return len(*m.bars.Load()) > 0 }

// Recall implements Exchange. No strategy of these stories is a Sharer.
func (m *mate) Recall(context.Context, string, []byte, int, bool) ([]Recalled, error) {
	return nil, errLost
}

// Identity implements Exchange.
func (m *mate) Identity(agent string) string { return fmt.Sprint(agent, m.view.Load().id(agent)) }

func (m *mate) Heirs() Heirs {
	if v := m.view.Load(); v != nil {
		return mateHeirs{roster{names: v.names, ring: v.ring}, m.name}
	}
	return nil
}

func (m *mate) Owner(name string) (string, bool) {
	host := weburl.HostKey(name)
	owner := m.view.Load().nearest(host)[0]
	if owner == m.name && m.barred(host) {
		return "", false
	}
	return owner, owner == m.name
}

func (m *mate) barred(host uint64) bool {
	return slices.ContainsFunc(*m.bars.Load(),
		func(b barred) bool { return b.before == nil || b.before.nearest(host)[0] == b.lost.name })
}
