package sim

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"

	"github.com/orbweaver/orbweaver/internal/node/membership"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// A plan may bound what is fetched of each host. Which pages a crawl then fetches depends on the order in which it
// finds them. So the judge compares no list of pages. It demands two things that hold for any order:
//
//   - No bound is exceeded: of a host, no agent fetches a page if it must know of as many as the bound allows, and
//     no page is deeper in its host than the bound allows.
//   - Each link of a page that was fetched leads to a page that was fetched, unless the bound excludes it.
//
// The depth of a page is that of the link that an agent accepted. The judge computes it from the columns "via"
// and "path" of crawl.log.

// A depthRange says how deep in its host a URL is: at least and at most.
type depthRange struct{ least, most int }

// unknownDepth is the depth of a URL of which an agent may have lost its line.
const unknownDepth = 1 << 30

// A wayTo is a line of crawl.log: how the crawl found a URL.
type wayTo struct {
	agent     int
	via, hops string
	again     bool // the line is of a page of a lost archive, and does not say how the crawl found it
}

// bound tells the judge the bounds of a plan.
func (j *judge) bound(p Plan) {
	j.hostPages, j.hostDepth, j.roots = p.HostPages, p.HostDepth, p.SeedRoots
	j.exclusive, j.moves, j.anyHost = p.Partition == sites, p.moves(), p.Partition == topic
	j.refetches = p.OnLoss == membership.LossRefetch || p.has(Restore) || p.has(Disaster) && p.has(Lose)
	if j.rounds = p.Rounds; p.Keep != "" {
		j.keeps = regexp.MustCompile(p.Keep)
	}
	j.expects = j.expected()
}

// readDepths computes the depths of all URLs from the logs on the disks of all agents.
func (s *story) readDepths() {
	if s.plan.HostDepth == 0 {
		return
	}
	lines := map[string][]wayTo{}
	for _, a := range s.actors {
		if a.run == nil {
			continue
		}
		b, err := disk.ReadFile(a.mem, crawlDir+"/logs/crawl.log", 1<<30)
		if err != nil {
			continue // its pages are of unknown depth
		}
		for line := range strings.Lines(string(b)) {
			if f := strings.Fields(line); len(f) > 5 && !strings.HasPrefix(f[1], "-") && !strings.HasSuffix(f[4], "P") {
				way := wayTo{a.number, strings.TrimPrefix(f[5], "-"), strings.TrimPrefix(f[4], "-"),
					len(f) > 11 && strings.Contains(f[11], report.RefetchNote)}
				lines[f[3]] = append(lines[f[3]], way)
			}
		}
	}
	j := s.judge
	j.mu.Lock()
	defer j.mu.Unlock()
	j.logged, j.depths = lines, map[string]depthRange{}
	for p, fs := range j.pages {
		url := j.made.URL(p.host, p.number)
		if j.anyHost && slices.ContainsFunc(fs, func(f fetched) bool { return j.lostLine(url, f) }) {
			j.depths[url] = depthRange{0, unknownDepth}
		}
	}
}

// lostLine reports whether an agent may have lost its line of a fetch. mu is held.
func (j *judge) lostLine(url string, f fetched) bool {
	return !j.hasLine(url, f.agent) ||
		slices.ContainsFunc(j.forgotten, func(e excuse) bool { return e.covers(f.agent, f.at) }) ||
		slices.ContainsFunc(j.replaced, func(r restore) bool { return r.agent == f.agent && f.at.Before(r.at) })
}

// hasLine reports whether an agent's log has a line of a URL. mu is held.
func (j *judge) hasLine(url string, agent int) bool {
	return slices.ContainsFunc(j.logged[url], func(l wayTo) bool { return l.agent == agent })
}

// depthOf returns how deep a URL is that agents have fetched. mu is held.
func (j *judge) depthOf(url string) depthRange {
	if d, ok := j.depths[url]; ok {
		return d
	}
	j.depths[url] = depthRange{0, unknownDepth} // while its depth is computed: a chain cannot lead back to it
	d, found := depthRange{unknownDepth, 0}, false
	for _, l := range j.logged[url] {
		if l.again {
			continue
		}
		found = true
		of := depthRange{}
		if l.hops != "" && !strings.HasSuffix(l.hops, "I") && hostIn(l.via) == hostIn(url) {
			of = j.depthOf(l.via)
			if !strings.HasSuffix(l.hops, "R") {
				of.least, of.most = of.least+1, of.most+1
			}
		}
		d.least, d.most = min(d.least, of.least), max(d.most, of.most)
	}
	if !found { // the line was lost with a disk
		d = depthRange{0, unknownDepth}
	}
	j.depths[url] = d
	return d
}

func hostIn(url string) string {
	_, rest, _ := strings.Cut(url, "://")
	host, _, _ := strings.Cut(rest, "/")
	return host
}

// followsWithin reports whether the agents must follow the links of a page to its own host. mu is held.
func (j *judge) followsWithin(p page) bool {
	if j.hostDepth == 0 {
		return true
	}
	url := j.made.URL(p.host, p.number)
	for _, f := range j.pages[p] { // each of them may have found it on a way of its own
		if !j.hasLine(url, f.agent) {
			return false
		}
	}
	return j.depthOf(url).most < j.hostDepth
}

// byHostAndTime returns the fetches of pages of each host, in the order of time. Pages of a lost archive that are
// fetched again do not count for the bounds: if pages move, it has only the first fetch of such a page, otherwise none
// after the loss. mu is held.
func (j *judge) byHostAndTime() map[int64][]fetched {
	all := map[int64][]fetched{}
	for p, fs := range j.pages {
		if len(j.gone[j.truth.URL(p.host, p.number)]) > 0 {
			fs = fs[:1]
		}
		fs = slices.DeleteFunc(slices.Clone(fs), func(f fetched) bool {
			return j.refetches && slices.ContainsFunc(j.forgotten, func(x excuse) bool {
				lost := func(e fetched) bool { return x.covers(e.agent, e.at) }
				return f.at.After(x.to) && slices.ContainsFunc(fs, lost)
			})
		})
		all[p.host] = append(all[p.host], fs...)
	}
	for _, fs := range all {
		slices.SortFunc(fs, func(a, b fetched) int { return a.at.Compare(b.at) })
	}
	return all
}

// full returns the hosts of which as many pages were fetched as the plan allows. mu is held.
func (j *judge) full() map[int64]bool {
	full := map[int64]bool{}
	for host, fs := range j.byHostAndTime() {
		full[host] = j.hostPages > 0 && int64(len(fs)) >= j.hostPages
	}
	return full
}

// exceeded returns the bounds that agents have exceeded, in words.
func (j *judge) exceeded() (wrong []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for host, fs := range j.byHostAndTime() {
		for i := int(j.hostPages); i > 0 && i < len(fs); i++ {
			known := int64(0)
			for _, e := range fs[:i] {
				if !j.mayFetch(host, -1, []fetched{e}, fs[i]) {
					known++
				}
			}
			if known >= j.hostPages {
				name, _ := j.made.Name(host)
				wrong = append(wrong, fmt.Sprintf("a%d fetched a page of %s at %s, and knew of %d; the plan allows %d",
					fs[i].agent, name, fs[i].at.Sub(start), known, j.hostPages))
				break
			}
		}
	}
	for p := range j.pages {
		if url := j.made.URL(p.host, p.number); j.hostDepth > 0 && j.depthOf(url).least > j.hostDepth {
			wrong = append(wrong, fmt.Sprintf("%s is %d links deep in its host; the plan allows %d", url,
				j.depthOf(url).least, j.hostDepth))
		}
	}
	slices.Sort(wrong)
	return wrong[:min(10, len(wrong))]
}

// expected returns about how many pages a crawl with the plan's bounds fetches: as many as one in the order of their
// discovery.
func (j *judge) expected() (n int64) {
	if j.hostPages == 0 && j.hostDepth == 0 {
		return j.truth.Reachable()
	}
	type found struct {
		page
		depth int
	}
	queue, seen, of := []found{{}}, map[page]bool{{}: true}, map[int64]int64{}
	for ; len(queue) > 0; queue = queue[1:] {
		p := queue[0]
		if of[p.host]++; j.hostPages > 0 && of[p.host] > j.hostPages {
			continue
		}
		n++
		for _, to := range j.made.Links(p.host, p.number, nil) {
			next := found{page{to.Host, to.Page}, 0}
			if to.Host == p.host {
				next.depth = p.depth + 1
			}
			if to.Page >= 0 && !seen[next.page] && (j.hostDepth == 0 || next.depth <= j.hostDepth) &&
				j.truth.Has(to.Host, to.Page) {
				seen[next.page] = true
				queue = append(queue, next)
			}
		}
	}
	return n
}

// bounded gives every second plan bounds of its hosts. A generator of its own leaves the other parts of each plan as
// they were.
func (p Plan) bounded() Plan {
	if p.Mirrors { // see holdings: it counts on all pages
		return p
	}
	rng := rand.New(rand.NewPCG(p.Seed, 0x626f756e64))
	kind := rng.IntN(8)
	if kind == 0 || kind == 3 {
		p.HostPages = 2 + rng.Int64N(int64(p.Pages))
	}
	if kind == 1 || kind == 3 {
		p.HostDepth = 1 + rng.IntN(3)
	}
	if kind == 2 || kind == 3 {
		p.SeedRoots, p.Crosslinked = true, 0.1
	}
	return p
}

// boundsText describes the bounds.
func (p Plan) boundsText() (s string) {
	if p.HostPages > 0 {
		s += fmt.Sprintf(", at most %d pages of a host", p.HostPages)
	}
	if p.HostDepth > 0 {
		s += fmt.Sprintf(", at most %d links within a host", p.HostDepth)
	}
	if p.SeedRoots {
		s += ", with roots"
	}
	return s
}
