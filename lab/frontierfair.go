package lab

import (
	"context"
	"fmt"
	"math"
	"time"

	"gonum.org/v1/plot/plotter"

	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

const (
	fairWorkers = 1000
	fairDelay   = time.Second
)

// A fairScenario is a set of hosts with queued links: ordinary hosts, and hosts that could
// slow them down and were queued first. The whale is one host with a very large number of
// links; the crowd is many hosts with one link each.
type fairScenario struct {
	name       string
	ordinary   int64 // number of ordinary hosts
	each       int64 // links of each ordinary host
	whale      int64 // links of the whale
	crowd      int64 // number of hosts with one link
	shared     int64 // number of hosts at one address
	sharedEach int64 // links of each of these
	time       time.Duration
}

// fairScenarios returns the scenarios, with numbers divided by scale.
func fairScenarios(scale int64) []fairScenario {
	plain := fairScenario{ordinary: 2000 / scale, each: 500, time: 200 * time.Second}
	whale, crowd, address, all := plain, plain, plain, plain
	plain.name = "ordinary hosts"
	whale.name, whale.whale = "and a whale", 1_000_000/scale
	crowd.name, crowd.crowd = "and a crowd", 1_000_000/scale
	address.name, address.shared, address.sharedEach = "and a shared address", 10_000/scale, 100
	all.name, all.whale, all.crowd, all.shared, all.sharedEach = "and all of these", 1_000_000/scale, 1_000_000/scale,
		10_000/scale, 100
	return []fairScenario{plain, whale, crowd, address, all}
}

// A fairRun is the result of a scenario.
type fairRun struct {
	fairScenario
	links, hosts int64
	fetched      int64
	ceiling      float64
	worst        float64 // the least share in a window
	// others is the number of fetches of the ordinary hosts, divided by the number that they
	// would get without the other hosts.
	others  float64
	windows plotter.XYs
}

func (r *fairRun) share() float64 { return float64(r.fetched) / max(r.ceiling, 1e-9) }

// fairSim is the state of a simulation. A group is a host, or all hosts at one address.
type fairSim struct {
	f     *frontier.Frontier
	left  []int64 // queued links of each group
	work  int64   // number of groups with links
	asked []bool  // whether a group has got a request
	fresh int64   // number of groups with links and without a request
	total int64
	first int64 // index of the first group of ordinary hosts
	busy  []fetching
	batch []link.Link
}

// push queues n links of a host that belongs to a group.
func (s *fairSim) push(name string, group int64, n int64) error {
	for len(s.left) <= int(group) {
		s.left, s.asked = append(s.left, 0), append(s.asked, false)
	}
	if s.left[group] == 0 && n > 0 {
		s.work++
		s.fresh++
	}
	s.left[group] += n
	s.total += n
	for i := range n {
		u, err := weburl.Parse(fmt.Sprintf("https://%s/%d", name, i))
		if err != nil {
			return err
		}
		s.batch = append(s.batch, link.Link{URL: u})
		if len(s.batch) == 1000 {
			if err := s.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *fairSim) flush() error {
	err := s.f.Push(s.batch)
	s.batch = s.batch[:0]
	return err
}

// groupOf reads the group of a host from its name, gNNNNNNNN-NNNNNN.example.
func groupOf(host string) (group int64, err error) {
	_, err = fmt.Sscanf(host[:9], "g%08d", &group)
	return group, err
}

// ceilingNow returns the number of fetches per second that politeness and the workers allow.
// Politeness does not delay the first request to a group.
func (s *fairSim) ceilingNow() float64 {
	if s.fresh > 0 {
		return fairWorkers / fetchTime.Seconds()
	}
	return math.Min(float64(s.work)/(fairDelay+fetchTime).Seconds(), fairWorkers/fetchTime.Seconds())
}

// fill queues the links of a scenario: the whale, the crowd and the shared address first.
func (s *fairSim) fill(c *fairScenario) (hosts int64, err error) {
	group := int64(0)
	add := func(n, each int64, oneGroup bool) {
		for i := range n {
			if err == nil {
				err = s.push(fmt.Sprintf("g%08d-%06d.example", group, i), group, each)
			}
			hosts++
			if !oneGroup || i == n-1 {
				group++
			}
		}
	}
	if c.whale > 0 {
		add(1, c.whale, false)
	}
	add(c.shared, c.sharedEach, true)
	add(c.crowd, 1, false)
	s.first = group
	// Links of ordinary hosts are mixed, as on pages.
	at := group
	for range c.each {
		group = at
		add(c.ordinary, 1, false)
		hosts -= c.ordinary
	}
	hosts += c.ordinary
	if err == nil {
		err = s.flush()
	}
	return hosts, err
}

// run runs the frontier for the virtual time of the scenario.
func (c fairScenario) run(ctx context.Context, dir string, seed uint64) (*fairRun, error) {
	cfg := frontier.Config{HostDelay: fairDelay, Seed: seed}
	if c.shared > 0 {
		cfg.IPDelay = fairDelay
	}
	f, err := frontier.Open(disk.OS, dir, cfg)
	if err != nil {
		return nil, err
	}
	s := &fairSim{f: f}
	r := &fairRun{fairScenario: c, worst: math.Inf(1)}
	if r.hosts, err = s.fill(&c); err != nil {
		return nil, err
	}
	r.links = s.total
	begin := time.Unix(1e9, 0)
	now, over := begin, begin.Add(c.time)
	window := struct {
		end     time.Time
		fetched int64
		ceiling float64
	}{end: begin.Add(fairWindow)}
	ordinary, possible := int64(0), 0.0
	for now.Before(over) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		// Start all fetches that are due, as far as there are workers.
		wake := over
		for len(s.busy) < fairWorkers {
			t, next, ok := f.Next(now)
			if !ok {
				if err := f.Err(); err != nil {
					return nil, err
				}
				if !next.IsZero() && !next.After(now) {
					continue // the frontier can read more from disk
				}
				if !next.IsZero() {
					wake = next
				}
				break
			}
			group, err := groupOf(t.Host)
			if err != nil {
				return nil, err
			}
			if !t.Addr.IsValid() {
				f.Resolved(t.Host, addressOf(group), now.Add(time.Hour), now)
				continue
			}
			if !s.asked[group] {
				s.asked[group] = true
				s.fresh--
			}
			s.busy = append(s.busy, fetching{t.Host, now.Add(fetchTime)})
		}
		// Move the clock to the next event.
		then := wake
		if len(s.busy) > 0 && s.busy[0].end.Before(then) {
			then = s.busy[0].end
		}
		if window.end.Before(then) {
			then = window.end
		}
		step := then.Sub(now).Seconds() * s.ceilingNow()
		r.ceiling += step
		window.ceiling += step
		possible += then.Sub(now).Seconds() * float64(s.ordinaryWork()) / (fairDelay + fetchTime).Seconds()
		now = then
		for len(s.busy) > 0 && !s.busy[0].end.After(now) {
			host := s.busy[0].host
			s.busy = s.busy[1:]
			if err := f.Done(host, frontier.Done{}, now); err != nil {
				return nil, err
			}
			group, _ := groupOf(host)
			if s.left[group]--; s.left[group] == 0 {
				s.work--
			}
			r.fetched++
			window.fetched++
			if group >= s.first {
				ordinary++
			}
		}
		if !now.Before(window.end) {
			if window.ceiling > 0 {
				share := float64(window.fetched) / window.ceiling
				r.worst = min(r.worst, share)
				r.windows = append(r.windows, plotter.XY{X: now.Sub(begin).Seconds(), Y: share})
			}
			window.end, window.fetched, window.ceiling = window.end.Add(fairWindow), 0, 0
		}
	}
	r.others = float64(ordinary) / max(possible, 1e-9)
	return r, f.Close()
}

// ordinaryWork returns the number of ordinary hosts. All of them have the same number of
// links, so all have links until nearly the end.
func (s *fairSim) ordinaryWork() int64 { return int64(len(s.left)) - s.first }
