package sites

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/orbweaver/orbweaver/internal/cluster/assignment"
	"github.com/orbweaver/orbweaver/internal/cluster/placement"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

func TestMain(m *testing.M) {
	buckets = 256 // a roster then costs microseconds
	goleak.VerifyTestMain(m)
}

// A history is a stream of entries, with what a naive reader concludes.
type history struct {
	rng     *rand.Rand
	entries []assignment.Entry
	members map[string]assignment.Member
	hosts   []string
	of      map[string]assigned
	rosters []*assignment.Roster
}

type assigned struct {
	agent  string
	number uint64
}

func newHistory(rng *rand.Rand) *history {
	return &history{rng: rng, members: map[string]assignment.Member{}, of: map[string]assigned{}}
}

func (h *history) number() uint64 { return uint64(len(h.entries)) + 1 }

// roster appends a roster of the members.
func (h *history) roster() *assignment.Roster {
	r := &assignment.Roster{Term: h.number()}
	for _, m := range h.members {
		r.Members = append(r.Members, m)
	}
	slices.SortFunc(r.Members, assignment.Member.Compare)
	h.entries = append(h.entries, assignment.Entry{Number: r.Term, Roster: r})
	h.rosters = append(h.rosters, r)
	return r
}

// assign appends an entry with new hosts, divided among the agents that are up.
func (h *history) assign(n int) {
	var up []string
	for _, m := range h.members {
		if m.State == assignment.Up {
			up = append(up, m.Name)
		}
	}
	if len(up) == 0 {
		return
	}
	slices.Sort(up)
	shares := map[string][]string{}
	for range n {
		host, agent := fmt.Sprintf("h%d.example", len(h.hosts)), up[h.rng.IntN(len(up))]
		h.hosts = append(h.hosts, host)
		h.of[host] = assigned{agent, h.number()}
		shares[agent] = append(shares[agent], host)
	}
	e := assignment.Entry{Number: h.number()}
	for _, name := range up {
		if hosts := shares[name]; len(hosts) > 0 {
			slices.Sort(hosts)
			e.Shares = append(e.Shares, assignment.Share{Agent: name, Hosts: hosts})
		}
	}
	h.entries = append(h.entries, e)
}

// A spot is who owns a host by a roster, as an instance.
type spot struct {
	name     string
	instance [16]byte
}

// owner returns the owner of a host by a roster, straight from the rule.
func owner(host, agent string, r *assignment.Roster, without string) (s spot) {
	var up []placement.Owner
	for _, m := range r.Members {
		if m.State != assignment.Up || m.Name == without {
			continue
		}
		if m.Name == agent {
			return spot{m.Name, m.Instance}
		}
		up = append(up, placement.Owner{Name: m.Name, Capacity: m.Capacity})
	}
	if len(up) == 0 {
		return spot{}
	}
	p, err := placement.NewRendezvous(up, buckets)
	if err != nil {
		panic(err)
	}
	m, _ := r.Member(p.Owner(link.HostKey(host)).Name)
	return spot{m.Name, m.Instance}
}

// owners returns the owner of a host by each roster up to term, from its assignment on. The first is the owner by
// the roster at that time.
func (h *history) owners(host string, term uint64) (all []spot) {
	a := h.of[host]
	for i, r := range h.rosters {
		if r.Term <= term && (i+1 == len(h.rosters) || h.rosters[i+1].Term > a.number) {
			all = append(all, owner(host, a.agent, r, ""))
		}
	}
	return all
}

// A period is a period of ownership: its since, and the last view in which it was seen.
type period struct{ since, view uint64 }

// A reader is an agent that reads a history, without a connection.
type reader struct {
	*Sites
	disk  *testdisk.Mem
	self  Self
	owned map[string]period // its hosts when it last owned them
}

func (r *reader) start(t *testing.T) {
	t.Helper()
	s, err := Open(Config{FS: r.disk, Dir: "sites", Self: r.self, MemoryBytes: 64 << 10})
	must.Do(t, err)
	r.Sites, r.owned = s, map[string]period{}
}

// read applies the next entries, at most n.
func (r *reader) read(t *testing.T, h *history, n int) {
	t.Helper()
	from := int(r.table.number)
	to := min(len(h.entries), from+n)
	must.Do(t, r.apply(&applying{entries: h.entries[from:to], last: uint64(len(h.entries))}))
	r.settleAll(t)
}

// settleAll answers the questions for the table.
func (r *reader) settleAll(t *testing.T) {
	t.Helper()
	for {
		hosts := r.asker.take()
		must.Do(t, r.look(hosts))
		must.Do(t, r.table.drum.Flush())
		must.Do(t, r.settle(nil, false))
		if r.table.syncing != nil {
			must.Do(t, r.table.endSync(<-r.table.synced))
		}
		if len(hosts) == 0 {
			return
		}
	}
}

// tenureOf is Tenure that waits for the table.
func (r *reader) tenureOf(t *testing.T, host string) (string, bool, uint64) {
	t.Helper()
	if _, _, ok := r.at(host); !ok {
		r.settleAll(t)
	}
	return r.Tenure(host)
}

// Owner, Tenure, Heirs and Before agree with a naive reader of the whole stream, while agents come, leave, are lost,
// return, lose their disks, are killed and lag behind.
func TestOwnersAgainstHistory(t *testing.T) {
	testtier.OneGoroutine(t)
	for round := range testtier.Rounds(6, 100) {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			rng := testseed.Rand(t)
			h, readers := newHistory(rng), map[string]*reader{}
			names := []string{"a", "b", "c", "d", "e"}[:2+rng.IntN(4)]
			for step := range 60 {
				name := names[rng.IntN(len(names))]
				m, member := h.members[name]
				switch x := rng.IntN(10); {
				case x < 3:
					h.assign(1 + rng.IntN(8))
				case readers[name] == nil || !member:
					if readers[name] == nil || rng.IntN(3) == 0 { // a new crawl directory
						r := &reader{disk: testdisk.NewMem(),
							self: Self{name, [16]byte{byte(step), 1}, 1}}
						if old := readers[name]; old != nil {
							must.Do(t, old.Close())
						}
						readers[name] = r
						r.start(t)
					}
					h.members[name] = assignment.Member{Name: name, Instance: readers[name].self.Instance, Boot: 1,
						Capacity: 1, Addr: "192.0.2.1:7470", State: assignment.Up}
					h.roster()
				case x < 5: // lost
					delete(h.members, name)
					h.roster()
				case x < 6:
					if m.State == assignment.Leaving {
						delete(h.members, name)
					} else {
						m.State = assignment.Leaving
						h.members[name] = m
					}
					h.roster()
				case x < 7: // another capacity
					m.Capacity = float64(1 + rng.IntN(2))
					h.members[name] = m
					h.roster()
				case x < 8 && rng.IntN(2) == 0: // a new crawl directory takes its place; the old process goes on
					if ghost := readers[name+" that was"]; ghost != nil && rng.IntN(2) == 0 { // and comes back
						readers[name], readers[name+" that was"] = ghost, readers[name]
						m.Instance = ghost.self.Instance
						h.members[name] = m
						h.roster()
						break
					} else if ghost != nil {
						must.Do(t, ghost.Close())
					}
					readers[name+" that was"] = readers[name]
					m.Instance = [16]byte{byte(step), 2}
					r := &reader{disk: testdisk.NewMem(), self: Self{name, m.Instance, 1}}
					readers[name] = r
					r.start(t)
					h.members[name] = m
					h.roster()
				case x < 8: // it starts again, after a clean stop or a kill
					r := readers[name]
					killed := r.disk.Clone()
					must.Do(t, r.Close())
					if rng.IntN(2) == 0 {
						r.disk = killed
					}
					r.self.Boot++
					r.start(t)
				}
				for _, r := range readers {
					n := len(h.entries)
					if rng.IntN(3) == 0 {
						n = rng.IntN(3)
					}
					r.read(t, h, n)
				}
				check(t, h, readers)
			}
			for _, r := range readers {
				must.Do(t, r.Close())
			}
		})
	}
}

// check compares the answers of all readers with the history.
func check(t *testing.T, h *history, readers map[string]*reader) {
	t.Helper()
	type claim struct {
		view uint64
		host string
	}
	taken := map[claim]spot{}
	for _, r := range readers {
		name, view := r.self.Name, r.View()
		if view == 0 {
			continue
		}
		self, roster := spot{name, r.self.Instance}, r.Roster()
		for _, host := range h.hosts {
			a := h.of[host]
			if a.number > r.table.number {
				continue
			}
			got, mine, since := r.tenureOf(t, host)
			want := owner(host, a.agent, roster, "")
			if got != want.name || mine != (want == self) {
				t.Fatalf("agent %s, roster %d: the owner of %s is %q (mine: %t), want %q", name, view, host, got, mine,
					want.name)
			}
			if !mine {
				continue
			}
			if other, twice := taken[claim{view, host}]; twice {
				t.Fatalf("roster %d: %s belongs to %v and %v", view, host, other, self)
			}
			taken[claim{view, host}] = self
			checkSince(t, h, r, host, since)
			others, leaving := r.Before(host)
			for i, s := range h.owners(host, view) {
				m, there := roster.Member(s.name)
				if s.name != name && there && m.Instance == s.instance && !slices.Contains(others, s.name) {
					t.Fatalf("agent %s: %v may have owned %s, not %s, which did in roster %d of its life", name, others,
						host, s.name, i)
				}
			}
			for i, o := range others {
				if m, _ := roster.Member(o); (m.State == assignment.Leaving) != (i < leaving) || o == name {
					t.Fatalf("agent %s: before it %v, of which %d are leaving", name, others, leaving)
				}
			}
			next := owner(host, a.agent, roster, name)
			if heir := r.Heirs().Heir(link.HostKey(host)); a.agent == name && heir != next.name ||
				a.agent != name && heir != next.name {
				t.Fatalf("agent %s, roster %d: the heir of %s is %q, want %q", name, view, host, heir, next.name)
			}
			if ever, _ := r.Had(host); !ever && a.agent == name {
				t.Fatalf("agent %s: it never had %s, which is its own", name, host)
			}
		}
	}
}

// checkSince compares since of a host of this agent with the owners that the host has had.
func checkSince(t *testing.T, h *history, r *reader, host string, since uint64) {
	t.Helper()
	view, self := r.View(), spot{r.self.Name, r.self.Instance}
	always := true
	for _, s := range h.owners(host, view) {
		always = always && s == self
	}
	if (since == 0) != always {
		t.Fatalf("agent %s, roster %d, instance %x: %s is its own since %d; always: %t", self.name, view,
			self.instance[0], host, since, always)
	}
	was, had := r.owned[host]
	whole := had // it has owned the host in all rosters since
	for _, ro := range h.rosters {
		if ro.Term > was.view && ro.Term <= view {
			whole = whole && owner(host, h.of[host].agent, ro, "") == self
		}
	}
	if had && whole != (was.since == since) {
		t.Fatalf("agent %s, roster %d: %s is its own since %d, and was since %d in roster %d; without a break: %t",
			self.name, view, host, since, was.since, was.view, whole)
	}
	r.owned[host] = period{since, view}
}

// Two rosters with the same agents up have the same Heirs: nothing is shipped again.
func TestHeirsStay(t *testing.T) {
	h := newHistory(testseed.Rand(t))
	r := &reader{disk: testdisk.NewMem(), self: Self{"a", [16]byte{1}, 1}}
	r.start(t)
	for _, name := range []string{"a", "b", "c"} {
		h.members[name] = assignment.Member{Name: name, Instance: [16]byte{1}, Boot: 1, Capacity: 1,
			State: assignment.Up}
	}
	h.roster()
	r.read(t, h, 9)
	was := r.Heirs()
	m := h.members["b"]
	m.Boot, m.Addr = 2, "192.0.2.9:1"
	h.members["b"] = m
	h.roster()
	r.read(t, h, 9)
	if r.View() != 2 || r.Heirs() != was {
		t.Fatalf("roster %d has other heirs, although the same agents are up", r.View())
	}
	delete(h.members, "c")
	h.roster()
	r.read(t, h, 9)
	if r.Heirs() == was {
		t.Fatal("the heirs are the same although an agent is gone")
	}
	must.Do(t, r.Close())
}
