package lab

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/graph"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/testweb/gen"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/classify"
	"github.com/orbweaver/orbweaver/internal/web/parse"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A TopicPart is a subcollection: the pages that one crawler keeps.
type TopicPart struct {
	Name  string         `json:"name"`
	Pages int            `json:"pages"`
	Links classify.Share `json:"links"` // of its pages to kept pages; right are those within the part
	// Tau compares the PageRanks within the part with those in all pages. It is nil if it is undefined, because the
	// part has less than two pages, or all of them have the same rank.
	Tau *float64 `json:"tau"`
}

// A TopicCategory is the crawler of a category.
type TopicCategory struct {
	TopicPart
	// The pages that the crawler keeps were first fetched by itself or by others.
	Retained      int   `json:"pages_retained"`
	Imported      int   `json:"pages_imported"`
	RetainedBytes int64 `json:"bytes_retained"`
	ImportedBytes int64 `json:"bytes_imported"`
	// Fetches are the kept pages to which its pages link, and right are those that it keeps itself.
	Fetches classify.Share `json:"fetches"`
	// Random is the mean tau of as many pages, chosen by a hash of their contents topicDraws times.
	Random *float64 `json:"tau_of_as_many_by_hash"`
}

// A TopicCheck compares the fetches that follow from the links with those in the logs of the agents, by kept pages.
type TopicCheck struct {
	Fetched int `json:"pages_fetched"`
	Kept    int `json:"pages_kept"`
	Astray  int `json:"pages_astray"` // kept by another agent than most pages of their category
	Fetches int `json:"fetches"`      // in the logs: pairs of a page and an agent
	Derived int `json:"fetches_derived"`
	Equal   int `json:"pages_equal"`
	// Spared pages were not fetched by the agent that keeps them, because another agent's copy came first.
	Spared int `json:"pages_spared"`
	// Undone pages were not fetched by another agent that has a link to them.
	Undone int `json:"pages_undone"`
	// Extra pages were fetched by an agent without a link to them.
	Extra int `json:"pages_extra"`
}

// TopicFigures are the figures 4 to 7.
type TopicFigures struct {
	Categories []TopicCategory `json:"categories"`
	Hash       []TopicPart     `json:"hash"`
	// HashImported is the number of pages that would be imported with the parts by hash.
	HashImported int `json:"hash_pages_imported"`
	// ByCrawlers has the number of pages that exactly i crawlers fetch, by the links; ByAgents the same of agents, and
	// Logged of agents by their logs.
	ByCrawlers []int          `json:"pages_by_crawlers"`
	ByAgents   []int          `json:"pages_by_agents"`
	Logged     []int          `json:"pages_by_agents_logged"`
	Check      TopicCheck     `json:"check"`
	Accuracy   classify.Share `json:"accuracy"`       // of the classifier, for kept pages with a topic
	Truth      classify.Share `json:"links_of_topic"` // between kept pages, within a topic by the web's word
}

// topicDraws is the number of draws of as many pages as a category has.
const topicDraws = 5

// none is the number of no page, category or agent.
const none = -1

// A crawledPage is a page of the web.
type crawledPage struct {
	category, keeper int // none: it is not kept
	depth            int // the number of links from the seed, as the keeper knows it; none: it is not kept
	digest           [sha1.Size]byte
	fetchers         uint64 // a bit for each agent
	// The first fetch.
	began time.Time
	via   int64 // the page with the link; none: the page is a seed
	bytes int64
}

// topicPages are the pages of a crawl.
type topicPages struct {
	names  []string // of the categories
	agents int
	depth  int           // pages with this depth are not followed; 0: all are
	pages  []crawledPage // by number
	links  [][2]uint32   // of kept pages
}

// topicFigures reads the archives and logs of all agents of a crawl of some depth, in the directories dirs.
func topicFigures(ctx context.Context, w *gen.TextWeb, c *classify.Classifier, depth int, dirs []string) (
	*TopicFigures, error) {
	x := &topicPages{names: append(slices.Clone(c.Categories()), classify.Unclassifiable), agents: len(dirs),
		depth: depth, pages: make([]crawledPage, w.Pages())}
	for i := range x.pages {
		x.pages[i] = crawledPage{category: none, keeper: none, depth: none, via: none}
	}
	for agent, dir := range dirs {
		if err := errors.Join(x.archive(ctx, w, c, agent, dir), x.log(w, agent, dir)); err != nil {
			return nil, err
		}
	}
	f, err := x.figures()
	if err != nil {
		return nil, err
	}
	topics := make([][]string, len(x.pages))
	for i := range x.pages {
		if p := &x.pages[i]; p.category != none {
			if topics[i] = w.Categories(int64(i)); len(topics[i]) > 0 {
				tally(&f.Accuracy, slices.Contains(topics[i], x.names[p.category]))
			}
		}
	}
	for _, l := range x.links {
		if to := topics[l[1]]; x.pages[l[1]].category != none {
			tally(&f.Truth, common(topics[l[0]], to))
		}
	}
	return f, nil
}

// archive reads the pages that an agent keeps: their categories and links.
func (x *topicPages) archive(ctx context.Context, w *gen.TextWeb, c *classify.Classifier, agent int, dir string) error {
	names, err := filepath.Glob(filepath.Join(dir, "archive", "*.warc.gz"))
	if err != nil {
		return err
	}
	var page parse.Page
	var s classify.Scratch
	var text []byte
	read := func(rec *warc.Record) error {
		n, ok := w.Page(rec.URL())
		if !ok || rec.Type() != "response" || x.pages[n].category != none {
			return nil
		}
		_, body, _, err := rec.Message(ctx)
		if err != nil {
			return err
		}
		b, err := io.ReadAll(body)
		if err != nil {
			return err
		}
		parse.Parse(parse.Input{URL: weburl.MustParse(rec.URL()), ContentType: "text/html; charset=utf-8", Body: b},
			parse.Options{}, &page)
		text = page.AppendProse(text[:0], b)
		p := &x.pages[n]
		category := c.Classify(text, page.MainText(), &s).Category
		p.category, p.keeper, p.digest = slices.Index(x.names, category), agent, sha1.Sum(b)
		for _, l := range page.Links {
			if to, ok := w.Page(l.URL.String()); ok && to != n {
				x.links = append(x.links, [2]uint32{uint32(n), uint32(to)})
			}
		}
		return ctx.Err()
	}
	for _, name := range names {
		if err := eachRecord(name, read); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// eachRecord calls fn for the records of a WARC file.
func eachRecord(name string, fn func(*warc.Record) error) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	for r := warc.NewReader(bufio.NewReaderSize(f, 1<<20)); ; {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = fn(rec)
		}
		if err != nil {
			return err
		}
	}
}

// log reads the fetches of an agent, and the depths of the pages that it keeps.
func (x *topicPages) log(w *gen.TextWeb, agent int, dir string) error {
	return eachLogLine(dir, func(l *report.Line) {
		n, ok := w.Page(l.URL)
		if !ok || l.Code != 200 {
			return
		}
		p := &x.pages[n]
		if !slices.Contains(l.Notes, "exported") && (p.depth == none || len(l.Hops) < p.depth) {
			p.depth = len(l.Hops)
		}
		if slices.ContainsFunc(l.Notes, func(note string) bool { return strings.HasPrefix(note, "imported:") }) {
			return
		}
		p.fetchers |= 1 << agent
		if p.began.IsZero() || l.Began.Before(p.began) {
			p.began, p.bytes, p.via = l.Began, l.Size, none
			if via, ok := w.Page(l.Via); ok {
				p.via = via
			}
		}
	})
}

// part returns the part of a page by a hash of its content, or none if the page is not kept.
func (x *topicPages) part(page uint32) int {
	if x.pages[page].category == none {
		return none
	}
	part, _ := bits.Mul64(binary.BigEndian.Uint64(x.pages[page].digest[:]), topicCrawlers)
	return int(part)
}

// figures computes the figures from the pages.
func (x *topicPages) figures() (*TopicFigures, error) {
	f := &TopicFigures{Categories: make([]TopicCategory, len(x.names)), Hash: make([]TopicPart, topicCrawlers),
		ByCrawlers: make([]int, len(x.names)+1), ByAgents: make([]int, x.agents+1), Logged: make([]int, x.agents+1)}
	for i, name := range x.names {
		f.Categories[i].Name = name
	}
	for i := range f.Hash {
		f.Hash[i].Name = fmt.Sprintf("hash %d", i+1)
	}
	crawlers, agents := make([]uint64, len(x.pages)), make([]uint64, len(x.pages)) // which follow a link to a page
	x.links = slices.DeleteFunc(x.links, func(l [2]uint32) bool { return x.pages[l[1]].category == none })
	for _, l := range x.links {
		from := &x.pages[l[0]]
		to := &x.pages[l[1]]
		if x.depth == 0 || from.depth < x.depth {
			crawlers[l[1]] |= 1 << from.category
			agents[l[1]] |= 1 << from.keeper
		}
		tally(&f.Categories[from.category].Links, from.category == to.category)
		tally(&f.Hash[x.part(l[0])].Links, x.part(l[0]) == x.part(l[1]))
	}
	of := x.agentsOf()
	for i := range x.pages {
		p := &x.pages[i]
		if p.fetchers != 0 {
			f.Check.Fetched++
		}
		if p.category == none {
			continue
		}
		if p.via == none { // one agent fetches a seed, by a hash of its host
			crawlers[i] |= 1 << p.category
			agents[i] |= p.fetchers
		}
		c := &f.Categories[p.category]
		c.Pages++
		if f.Hash[x.part(uint32(i))].Pages++; p.via != none && x.part(uint32(p.via)) != x.part(uint32(i)) {
			f.HashImported++
		}
		if p.via == none || x.pages[p.via].category == p.category {
			c.Retained, c.RetainedBytes = c.Retained+1, c.RetainedBytes+p.bytes
		} else {
			c.Imported, c.ImportedBytes = c.Imported+1, c.ImportedBytes+p.bytes
		}
		for k := range x.names {
			if crawlers[i]&(1<<k) != 0 {
				tally(&f.Categories[k].Fetches, k == p.category)
			}
		}
		f.ByCrawlers[bits.OnesCount64(crawlers[i])]++
		f.ByAgents[bits.OnesCount64(agents[i])]++
		f.Logged[bits.OnesCount64(p.fetchers)]++
		f.Check.add(p, agents[i], of[p.category])
	}
	if f.Check.Kept == 0 {
		return nil, fmt.Errorf("%w: the archives have no page", ErrTopicCrawl)
	}
	return f, x.correlate(f)
}

// agentsOf returns the agent that keeps the most pages of each category.
func (x *topicPages) agentsOf() []int {
	counts := make([][]int, len(x.names))
	for k := range counts {
		counts[k] = make([]int, x.agents)
	}
	for i := range x.pages {
		if p := &x.pages[i]; p.category != none {
			counts[p.category][p.keeper]++
		}
	}
	of := make([]int, len(x.names))
	for k, by := range counts {
		of[k] = slices.Index(by, slices.Max(by))
	}
	return of
}

// add compares the agents that should fetch a kept page with those that did. of is the agent of its category.
func (c *TopicCheck) add(p *crawledPage, derived uint64, of int) {
	c.Kept++
	c.Fetches += bits.OnesCount64(p.fetchers)
	c.Derived += bits.OnesCount64(derived)
	if p.keeper != of {
		c.Astray++
	}
	switch missing, extra := derived&^p.fetchers, p.fetchers&^derived; {
	case extra != 0:
		c.Extra++
	case missing == 0:
		c.Equal++
	case missing == 1<<p.keeper:
		c.Spared++
	default:
		c.Undone++
	}
}

// correlate computes the taus.
func (x *topicPages) correlate(f *TopicFigures) error {
	number := make([]uint32, len(x.pages)) // of the kept pages, without gaps
	var kept []uint32
	for i := range x.pages {
		if x.pages[i].category != none {
			number[i] = uint32(len(kept))
			kept = append(kept, uint32(i))
		}
	}
	all, err := graph.FromLinks(uint32(len(kept)), func(yield func(from, to uint32) bool) {
		for _, l := range x.links {
			if !yield(number[l[0]], number[l[1]]) {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	how := graph.RankConfig{Damping: graph.Damping, Tolerance: 1e-10, Iterations: 200}
	whole, err := graph.PageRank(all, how)
	if err != nil {
		return err
	}
	tau := func(keep func(page uint32) bool) (*float64, error) {
		part, nodes, err := graph.Induced(all, func(node uint32) bool { return keep(kept[node]) })
		if err != nil || len(nodes) < 2 {
			return nil, err
		}
		ranks, err := graph.PageRank(part, how)
		if err != nil {
			return nil, err
		}
		const digits = 6 // ranks that should be equal may differ in their last ones
		k, err := graph.Kendall(graph.Pairs(whole.Of, ranks.Of, nodes, digits))
		if errors.Is(err, graph.ErrTiedA) || errors.Is(err, graph.ErrTiedB) {
			return nil, nil
		}
		value := k.Tau()
		return &value, err
	}
	for i := range f.Hash {
		if f.Hash[i].Tau, err = tau(func(page uint32) bool { return x.part(page) == i }); err != nil {
			return err
		}
	}
	byHash := slices.Clone(kept)
	slices.SortFunc(byHash, func(a, b uint32) int {
		return cmp.Compare(string(x.pages[a].digest[:]), string(x.pages[b].digest[:]))
	})
	for i := range f.Categories {
		c := &f.Categories[i]
		if c.Tau, err = tau(func(page uint32) bool { return x.pages[page].category == i }); err != nil {
			return err
		}
		var taus []float64
		for draw := range topicDraws {
			// The draws begin at different places of the order, which is a ring.
			chosen := make([]bool, len(x.pages))
			for k := range c.Pages {
				chosen[byHash[(draw*len(kept)/topicDraws+k)%len(kept)]] = true
			}
			value, err := tau(func(page uint32) bool { return chosen[page] })
			if err != nil {
				return err
			}
			if value != nil {
				taus = append(taus, *value)
			}
		}
		if len(taus) > 0 {
			mean := average(taus)
			c.Random = &mean
		}
	}
	return nil
}
