package sites

import (
	"strings"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/assignment"
	"github.com/orbweaver/orbweaver/internal/store/heap"
	"github.com/orbweaver/orbweaver/internal/wake"
)

const (
	// gather is how long new hosts are gathered for a question to the coordinators, and batch is the most that
	// one question has.
	gather = 100 * time.Millisecond
	batch  = 4096
	// comingWait is the pause before the coordinators are asked again for a host that they have promised to
	// assign. It doubles, up to comingMost. A leader that dies may forget the host.
	comingWait = 5 * time.Second
	comingMost = time.Minute
	// failedWait is the pause after a failed question. It doubles, up to failedMost.
	failedWait = 100 * time.Millisecond
	failedMost = 5 * time.Second
	// deadLeast and deadMost bound the time that the coordinators give for a host without an address.
	deadLeast = time.Second
	deadMost  = 10 * time.Minute
	// deadTries is how often a host may be found without an address. Then it is assigned all the same, and its
	// owner finishes its links like those of any host that cannot be reached.
	deadTries = 2
)

// A Decision is what the coordinators say of a host.
type Decision struct {
	State State
	// After is when to ask again for a Dead host.
	After time.Duration
}

// A State is the stage of a host at the coordinators.
type State uint8

// The states.
const (
	// Assigned: the host is in an entry.
	Assigned State = 1 + iota
	// Coming: the coordinators look the host up, or have yet to agree on it.
	Coming
	// Dead: the host has no address.
	Dead
)

// A wait is a host whose owner somebody wants to know.
type wait struct {
	host  string
	stage stage
	tries int
	dead  int       // how often it was found without an address
	kept  bool      // this agent is to own it
	since time.Time // when its owner was wanted first
	at    time.Time // when to ask; in the heap
	index int       // in the heap; -1: not there
}

type stage uint8

const (
	looking  stage = iota // the table is asked
	due                   // the coordinators are to be asked
	asked                 // they are being asked
	promised              // they have answered Assigned or Coming
	dead
	stages
)

// An asker keeps the hosts whose owner is wanted. Safe for concurrent use.
type asker struct {
	most  int
	table chan struct{} // receives a value when there are hosts for take
	calls chan struct{} // receives a value when next may have changed

	mu       sync.Mutex // guards the fields below
	hosts    map[string]*wait
	fresh    []string         // for the table
	later    heap.Heap[*wait] // by the time to ask
	overflow bool             // hosts were refused
	tries    int              // failed questions in a row
	resume   time.Time
	n        [stages]int // hosts by stage
	total    askerCounts
}

// askerCounts counts since the start.
type askerCounts struct {
	asked, found, assigned, discovered, dead, refused, overflows int64
}

func newAsker(most int) *asker {
	return &asker{most: most, hosts: map[string]*wait{}, table: make(chan struct{}, 1), calls: make(chan struct{}, 1),
		later: heap.Heap[*wait]{
			Less:  func(a, b *wait) bool { return a.at.Before(b.at) },
			Place: func(w *wait) *int { return &w.index },
		}}
}

// ask wants to know the owner of a host. host may be memory that changes later.
func (a *asker) ask(host string, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.hosts[host] != nil {
		return
	}
	if len(a.hosts) >= a.most {
		a.overflow = true
		a.total.refused++
		return
	}
	host = strings.Clone(host)
	a.hosts[host] = &wait{host: host, since: now, index: -1}
	a.n[looking]++
	a.total.asked++
	a.fresh = append(a.fresh, host)
	wake.Up(a.table)
}

// take returns hosts for the table, at most batch.
func (a *asker) take() (hosts []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := min(batch, len(a.fresh))
	hosts, a.fresh = a.fresh[:n:n], a.fresh[n:]
	if len(a.fresh) > 0 {
		wake.Up(a.table)
	}
	return hosts
}

// relook asks the table again for hosts of which it has not answered: it began anew.
func (a *asker) relook() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fresh = nil
	for host, w := range a.hosts {
		if w.stage == looking {
			a.fresh = append(a.fresh, host)
		}
	}
	wake.Up(a.table)
}

func (a *asker) move(w *wait, to stage, at time.Time) {
	a.n[w.stage]--
	a.n[to]++
	w.stage, w.at = to, at
	switch {
	case to == asked:
		a.later.Remove(w)
	case w.index >= 0:
		a.later.Fix(w)
	default:
		a.later.Push(w)
	}
	if to != asked && a.later.Items[0] == w {
		wake.Up(a.calls)
	}
}

// unknown tells that the table does not have a host.
func (a *asker) unknown(host string, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if w := a.hosts[host]; w != nil && w.stage == looking {
		a.move(w, due, now.Add(gather))
	}
}

// found tells that the assignment of a host is known: inEntry that it has just come, otherwise the table had it.
// wanted reports whether somebody wanted to know it. drained reports, once, that hosts were refused before, and
// that there is room for them now.
func (a *asker) found(host string, inEntry bool) (wanted, drained bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := a.hosts[host]
	if w == nil {
		return false, false
	}
	if inEntry {
		a.total.assigned++
	} else {
		a.total.found++
	}
	a.later.Remove(w)
	a.n[w.stage]--
	delete(a.hosts, host)
	if a.overflow && len(a.hosts) <= a.most/2 {
		a.overflow = false
		a.total.overflows++
		return true, true
	}
	return true, false
}

// next returns when the coordinators are to be asked next; ok is false if there is nothing to ask.
func (a *asker) next() (at time.Time, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.later.Items) == 0 {
		return at, false
	}
	return later(a.later.Items[0].at, a.resume), true
}

// keep tells that this agent is to own a host that somebody waits for.
func (a *asker) keep(host string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if w := a.hosts[host]; w != nil {
		w.kept = true
	}
}

// how says how the coordinators are to assign a host.
func (w *wait) how() assignment.How {
	switch {
	case w.kept:
		return assignment.Kept
	case w.dead >= deadTries:
		return assignment.Unchecked
	}
	return assignment.LookedUp
}

// batch returns the hosts to ask the coordinators for now, and how they are to assign them.
func (a *asker) batch(now time.Time) (hosts []string, how assignment.How) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now.Before(a.resume) || len(a.later.Items) == 0 || a.later.Items[0].at.After(now) {
		return nil, 0
	}
	how = a.later.Items[0].how()
	for len(a.later.Items) > 0 && !a.later.Items[0].at.After(now.Add(gather)) && len(hosts) < batch {
		w := a.later.Items[0]
		if w.how() != how {
			break
		}
		a.move(w, asked, time.Time{})
		hosts = append(hosts, w.host)
	}
	return hosts, how
}

// answered takes the verdicts on a batch. If err is not nil, the question has failed.
func (a *asker) answered(hosts []string, vs []Decision, err error, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil || len(vs) != len(hosts) {
		a.resume = now.Add(min(failedWait<<min(a.tries, 10), failedMost))
		a.tries++
		vs = nil
	} else {
		a.tries, a.resume = 0, time.Time{}
		a.total.discovered += int64(len(hosts))
	}
	for i, host := range hosts {
		w := a.hosts[host]
		switch {
		case w == nil || w.stage != asked: // its entry has come meanwhile
		case vs == nil:
			a.move(w, due, now)
		case vs[i].State == Dead:
			a.total.dead++
			w.tries = 0
			if vs[i].After > deadLeast { // otherwise the leader has no room for the host
				w.dead++
			}
			a.move(w, dead, now.Add(min(max(vs[i].After, deadLeast), deadMost)))
		default:
			a.move(w, promised, now.Add(min(comingWait<<min(w.tries, 10), comingMost)))
			w.tries++
		}
	}
	wake.Up(a.calls)
}

// explain says in words what a host waits for, without its name; "" if it does not wait.
func (a *asker) explain(host string, now time.Time) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := a.hosts[host]
	if w == nil {
		return ""
	}
	text := "has no agent yet; " + [stages]string{
		looking: "it is looked for on disk", due: "the coordinators are to be asked",
		asked: "the coordinators are being asked", promised: "the coordinators look it up or are about to assign it",
		dead: "the coordinators have found no address of it",
	}[w.stage] + ", since " + now.Sub(w.since).Round(time.Second).String()
	if w.stage == dead {
		text += ", and are asked again in " + max(0, w.at.Sub(now)).Round(time.Second).String()
	}
	return text
}

// waitsFor reports whether the coordinators are to assign a host.
func (a *asker) waitsFor(host string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := a.hosts[host]
	return w != nil && w.stage != looking
}

// counts returns the hosts by stage, and the counts since the start.
func (a *asker) counts() (n [stages]int, total askerCounts) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.n, a.total
}
