// Package gone answers: which agents were in this cluster and are not now, and what had they done by then?
//
//	"I have these counts", "I end, because" -> note --v
//	views of the cluster --------------------> See -> Roll -> state/gone.json -> Agents
//
// Every second each agent tells its counts to one of the others, in turn. An agent that ends also says why. If an
// agent is killed, some other agent knows counts that are some seconds old. If an agent ends in order, some other agent
// knows its last counts. No agent knows all counts: the caller merges the answers of all agents.
//
// A Roll remembers the agents that have gone last, at most mostGone of them, also after a restart. It names an agent
// until the same instance is back, or another one that a restore has made of it. It is safe for concurrent use.
package gone

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/members"
	"github.com/orbweaver/orbweaver/internal/cluster/operation"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// File is the file of a Roll in the crawl directory: a JSON array of Agent.
const File = "state/gone.json"

// CountsMethod is the method of package operation by which an agent tells its counts. The request is a message in JSON,
// the response is empty.
const CountsMethod = "Counts"

const (
	// mostGone bounds the agents that a Roll remembers.
	mostGone = 100
	// mostKnown bounds the agents that are present.
	mostKnown = 2048
	// maxFile bounds File: a row for each agent of a large cluster, and mostGone more.
	maxFile = 1 << 20
	// maxMessage and maxReason bound what another agent tells.
	maxMessage, maxReason = 1 << 10, 40
	// tellEvery is how often an agent tells its counts, and tellPatience bounds each call.
	tellEvery, tellPatience = time.Second, 5 * time.Second
	// saveEvery is how often counts of agents that are present become durable.
	saveEvery = 30 * time.Second
	// partPatience bounds how long an agent that ends tells others why, and partMost bounds how many it tells.
	partPatience, partMost = time.Second, 8
)

// The reasons of an agent that ends because of its machine. After an error it counts as lost.
const (
	DiskFull = "disk-full"
	Failed   = "error"
)

// A State is how an agent has gone.
type State string

// The states.
const (
	Stopped State = "stopped" // in order: it can be resumed
	Left    State = "left"    // it has handed its hosts to the others
	Lost    State = "lost"    // without a word: it was killed, has failed, or cannot be reached
)

// Counts are counts of an agent, all runs together.
type Counts struct {
	Pages   int64 `json:"pages"`
	Fetched int64 `json:"fetched"`
	Bytes   int64 `json:"bytes"`
	Queued  int64 `json:"urls_queued"`
	Unique  int64 `json:"urls_unique"`
	Errors  int64 `json:"errors"`
}

// An Agent is what a Roll knows of one instance of an agent.
type Agent struct {
	Name     string    `json:"name"`
	Instance string    `json:"instance"`
	Boot     uint64    `json:"boot"`
	Counts   *Counts   `json:"counts,omitempty"` // the last that are known; nil: none
	At       time.Time `json:"at,omitzero"`      // of Counts
	Since    time.Time `json:"since,omitzero"`   // when it went; zero: it was present
	State    State     `json:"state,omitempty"`
	Reason   string    `json:"reason,omitempty"` // a reason of the event stopped, disk-full or Failed; "": not told
}

// A message is what an agent tells another one.
type message struct {
	Counts Counts `json:"counts"`
	Ends   string `json:"ends,omitempty"` // why the agent ends; "": it goes on
}

// A Crawl has the counts of this agent.
type Crawl interface {
	// Progress returns the state of the crawl loop, or nil before its run.
	Progress() *crawl.Status
}

// Config configures a Roll.
type Config struct {
	FS      disk.FS
	Path    string // of File
	Clock   clock.Clock
	Members *members.Members
	Crawl   Crawl
}

// A Roll has the counts of the other agents of a cluster, and of agents that have gone when and why they went.
type Roll struct {
	cfg Config

	mu    sync.Mutex // guards the fields below
	turn  int        // which agent Tend tells next
	all   map[string]Agent
	view  *gossip.View // nil: none yet
	dirty bool
	saved time.Time
}

// Open reads a Roll. If the file is missing or damaged, the Roll is empty.
func Open(cfg Config) (*Roll, error) {
	r := &Roll{cfg: cfg, all: map[string]Agent{}}
	b, err := disk.ReadFile(cfg.FS, cfg.Path, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	} else if err != nil {
		return nil, err
	}
	var list []Agent
	if json.Unmarshal(b, &list) == nil {
		for _, a := range list {
			r.all[a.Instance] = a
		}
	}
	return r, nil
}

// Told records the counts of the agent from, and why it ends. The error means that the request is damaged.
func (r *Roll) Told(from rpc.Caller, request []byte) error {
	var m message
	if len(request) > maxMessage || json.Unmarshal(request, &m) != nil || len(m.Ends) > maxReason {
		return errors.New("damaged counts")
	}
	for _, n := range []*int64{&m.Counts.Pages, &m.Counts.Fetched, &m.Counts.Bytes, &m.Counts.Queued, &m.Counts.Unique,
		&m.Counts.Errors} {
		*n = min(max(*n, 0), 1<<60)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	id := from.Instance.String()
	a, known := r.all[id]
	if from.Boot < a.Boot || from.Boot == a.Boot && a.Reason != "" || !known && len(r.all) >= mostKnown {
		return nil
	}
	if from.Boot > a.Boot {
		a = Agent{Name: from.Name, Instance: id, Boot: from.Boot}
	}
	a.Counts, a.At = &m.Counts, r.cfg.Clock.Now()
	if m.Ends != "" {
		a.Since, a.Reason, a.State = a.At, m.Ends, stateOf(m.Ends)
	}
	if r.all[id], r.dirty = a, true; m.Ends != "" {
		r.save()
	}
	return nil
}

func stateOf(reason string) State {
	switch reason {
	case string(crawl.Left):
		return Left
	case Failed, "":
		return Lost
	}
	return Stopped
}

// See compares a view of the cluster with the Roll, and records which agents have gone or are back.
func (r *Roll) See(v *gossip.View) {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := r.view == nil
	r.view = v
	there := map[string]bool{}
	for _, a := range v.Agents {
		id := rpc.ID(a.Instance).String()
		if a.Instance == r.cfg.Members.Self.Instance || a.State == gossip.Gone {
			continue
		}
		there[id] = true
		was, known := r.all[id]
		if !known || was.Boot < a.Boot || !was.Since.IsZero() && was.Reason == "" { // it is new, or back
			r.all[id] = Agent{Name: a.Name, Instance: id, Boot: a.Boot, Counts: was.Counts, At: was.At}
			r.dirty = true
		}
	}
	delete(r.all, rpc.ID(r.cfg.Members.Self.Instance).String())
	for id, a := range r.all { // a restored agent has the counts of its former instance, up to the saved state
		for _, b := range v.Agents {
			if a.Name == b.Name && b.State != gossip.Gone && members.Renewed(id, rpc.ID(b.Instance).String()) {
				delete(r.all, id)
				r.dirty = true
			}
		}
	}
	ended := members.EndingsIn(v)
	changed := false
	for id, a := range r.all {
		if there[id] {
			continue
		}
		was := a
		if a.Since.IsZero() {
			a.Since, a.State = r.cfg.Clock.Now().Add(-r.silent(v, id)), Lost
			if first && !a.At.IsZero() { // it went while this agent was away
				a.Since = a.At
			}
		}
		if end, ok := ended[id]; ok && end.Boot >= a.Boot && a.State == Lost {
			a.State = Stopped
			if end.Left {
				a.State = Left
			}
		}
		if a != was {
			r.all[id], changed = a, true
		}
	}
	r.bound()
	if changed {
		r.dirty = true
		r.save()
	}
}

// silent returns for how long this agent has not heard of one that is lost.
func (r *Roll) silent(v *gossip.View, instance string) time.Duration {
	for _, l := range v.Lost {
		if rpc.ID(l.Instance).String() == instance {
			return r.cfg.Members.Gossip().Silent(l)
		}
	}
	return 0
}

// bound forgets the agents that went first. The caller holds mu.
func (r *Roll) bound() {
	list := r.gone()
	slices.SortFunc(list, func(a, b Agent) int { return b.Since.Compare(a.Since) })
	for _, a := range list[min(len(list), mostGone):] {
		delete(r.all, a.Instance)
		r.dirty = true
	}
}

// gone returns the agents that have gone. The caller holds mu.
func (r *Roll) gone() []Agent {
	return slices.DeleteFunc(slices.Collect(maps.Values(r.all)), func(a Agent) bool { return a.Since.IsZero() })
}

// save makes the Roll durable. Only people read the file, so an error does not stop the crawl: save tries again later.
// The caller holds mu.
func (r *Roll) save() {
	if !r.dirty {
		return
	}
	b, err := json.Marshal(slices.SortedFunc(maps.Values(r.all), order))
	if err == nil {
		err = disk.WriteFile(r.cfg.FS, r.cfg.Path, append(b, '\n'))
	}
	r.dirty, r.saved = err != nil, r.cfg.Clock.Now()
}

func order(a, b Agent) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), a.Since.Compare(b.Since), cmp.Compare(a.Instance, b.Instance))
}

// Agents returns the agents that have gone, sorted by name. If a new instance has the name of an agent that has gone,
// the list has the old instance, too. An agent that has told why it ends is in the list when the view lacks it.
func (r *Roll) Agents() []Agent {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.gone()
	if r.view != nil {
		list = slices.DeleteFunc(list, func(a Agent) bool {
			return slices.ContainsFunc(r.view.Agents, func(there gossip.Agent) bool {
				return there.State != gossip.Gone && rpc.ID(there.Instance).String() == a.Instance
			})
		})
	}
	slices.SortFunc(list, order)
	return list
}

// Heard returns what an agent of the view has told last; nil: nothing.
func (r *Roll) Heard(name string) *Counts {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.view == nil {
		return nil
	}
	a, _ := r.view.Agent(name)
	return r.all[rpc.ID(a.Instance).String()].Counts
}

// Tend tells the other agents this agent's counts, and makes theirs durable now and then, until ctx is done.
func (r *Roll) Tend(ctx context.Context) {
	for clock.Pause(ctx, tellEvery) {
		r.tellSome(ctx, 1, "")
		r.mu.Lock()
		if r.cfg.Clock.Now().Sub(r.saved) >= saveEvery {
			r.save()
		}
		r.mu.Unlock()
	}
}

// Close makes the Roll durable. It returns nil.
func (r *Roll) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.save()
	return nil
}

// others returns the names of the other agents that are up or leave.
func (r *Roll) others() []string {
	if r.cfg.Members.Gossip() == nil {
		return nil
	}
	return slices.DeleteFunc(r.cfg.Members.In(gossip.Up, gossip.Leaving), func(name string) bool {
		return name == r.cfg.Members.Self.Name
	})
}

// tellSome tells up to n other agents, those whose turn it is, at once.
func (r *Roll) tellSome(ctx context.Context, n int, ends string) {
	others := r.others()
	n = min(len(others), n)
	r.mu.Lock()
	from := r.turn
	r.turn += n
	r.mu.Unlock()
	var told sync.WaitGroup
	for i := range n {
		told.Go(func() { r.tell(ctx, others[(from+i)%len(others)], ends) })
	}
	told.Wait()
}

// tell tells an agent the counts of this one. An agent that does not answer, or does not know the method, is not told.
func (r *Roll) tell(ctx context.Context, name, ends string) {
	s := r.cfg.Crawl.Progress()
	if s == nil {
		return
	}
	m := message{Counts: Counts{Pages: s.Pages, Fetched: s.Fetched, Bytes: s.Bytes, Queued: s.Queued, Unique: s.Unique},
		Ends: ends}
	for _, n := range s.Errors {
		m.Counts.Errors += n
	}
	b, err := json.Marshal(m)
	p, gone := r.cfg.Members.Peer(name)
	if err != nil || gone != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, tellPatience)
	defer cancel()
	_, _ = operation.Ask(ctx, p, CountsMethod, b)
}

// Part tells some other agents why this one ends, before it leaves the view. It takes at most a second.
func (r *Roll) Part(reason string) {
	ctx, cancel := context.WithTimeout(context.Background(), partPatience)
	defer cancel()
	r.tellSome(ctx, partMost, reason)
}
