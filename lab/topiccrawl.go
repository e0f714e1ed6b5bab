package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/orbweaver/orbweaver/internal/node/membership"
	"github.com/orbweaver/orbweaver/internal/testweb"
	"github.com/orbweaver/orbweaver/internal/testweb/gen"
	"github.com/orbweaver/orbweaver/internal/web/classify"
)

// TopicCrawl repeats the experiments of the paper on X4 with its crawler (section 6, figures 4 to 7).
//
// Agents are processes, and this process serves the webs. Each category counts as a crawler, as in the paper, also if
// an agent has several. What a crawler fetches and keeps follows from the archives and logs of the agents.
type TopicCrawl struct {
	// Texts is the folder with the texts. Empty means "../shared/data/topics".
	Texts string `default:"../shared/data/topics" placeholder:"DIR" help:"${topic_texts}"`
	// Pages is the number of pages of the generated web. Zero means 1,000,000, with --quick 5,000.
	Pages int64 `placeholder:"N" help:"${topic_pages}"`
	// Depth is the number of links that a crawl of the generated web follows at most. Zero means 5, with --quick 3. A
	// crawl ends by itself then, when all pages have arrived where they belong.
	Depth int `placeholder:"N" help:"${topic_depth}"`
	// Webs are the names of the webs. Empty means all.
	Webs []string `name:"web" placeholder:"WEB" help:"${topic_web}"`
}

// The ways to divide the pages.
const (
	wayTopic    = "topic"
	wayContents = "hash"
)

// topicWays have the flags of each way. The first one gets the model, too.
var topicWays = []struct {
	name  string
	flags []string
}{
	{wayTopic, []string{"--partition", membership.PartitionTopic}},
	{wayContents, []string{"--partition", "hash", "--boundary", "contents"}},
	{wayRendezvous, nil},
}

const (
	// topicCrawlers is the number of crawlers in the paper, and the number of parts by a hash here.
	topicCrawlers = 16
	// topicAgents is the number of agents for the generated web.
	topicAgents = 4
)

// The names of the webs.
const (
	webArticles  = "encyclopedia"
	webGenerated = "generated"
)

// TopicWebs returns the names of the webs of TopicCrawl.
func TopicWebs() []string { return []string{webArticles, webGenerated} }

// ErrTopicCrawl reports crawls from which the figures do not follow.
var ErrTopicCrawl = errors.New("the figures do not follow from the crawl")

// A TopicCost is what a crawl has sent, all agents together.
type TopicCost struct {
	Way     string `json:"way"`
	Fetches int64  `json:"fetches"`
	Pages   int64  `json:"pages"` // distinct ones, by the web's report
	// Received are the bytes from the web, Sent those between agents, with the answers. ByCall has the messages of each
	// kind of call.
	Received int64            `json:"received_bytes"`
	Sent     int64            `json:"sent_bytes"`
	ByCall   map[string]int64 `json:"sent_bytes_by_call"`
	Moved    int64            `json:"pages_moved"` // of the fetches: to the agents that keep the pages
	Stop     string           `json:"stop_reason"`
	Seconds  float64          `json:"seconds"`
}

// A TopicWeb is what the crawls of a web gave.
type TopicWeb struct {
	Name   string `json:"web"`
	Pages  int64  `json:"web_pages"`
	Hosts  int64  `json:"web_hosts"`
	Agents int    `json:"agents"`
	Depth  int    `json:"depth"` // of each crawl; 0: no limit
	// Reachable is the number of pages that a crawl without a limit can reach.
	Reachable int64       `json:"reachable"`
	Costs     []TopicCost `json:"costs"`
	TopicFigures
}

// topicJob is a web to be crawled.
type topicJob struct {
	name   string
	web    *gen.TextWeb
	train  []classify.Text
	agents int
	depth  int // of each crawl; 0: no limit
}

// Run implements Experiment.
func (x *TopicCrawl) Run(ctx context.Context, t *Trial) (*Result, error) {
	webs, err := x.run(ctx, t)
	if err != nil {
		return nil, err
	}
	return x.result(webs), nil
}

// run makes all measurements.
func (x *TopicCrawl) run(ctx context.Context, t *Trial) (webs []TopicWeb, err error) {
	y := *x
	every, agents := 1, topicCrawlers
	if t.Quick {
		every, agents = 4, 3
	}
	def(&y.Texts, defaultTexts)
	size(t.Quick, &y.Pages, 1_000_000, 5000)
	size(t.Quick, &y.Depth, 5, 3)
	odp, wiki, err := readBoth(y.Texts, every)
	if err != nil {
		return nil, err
	}
	articles := encyclopediaWeb(webArticles, wiki, gen.TextSpec{})
	generated := (&Focused{Pages: y.Pages}).generatedWeb(t, "generated", odp, gen.TextSpec{})
	for _, w := range []*focusedWeb{articles, generated} {
		if len(y.Webs) > 0 && !slices.Contains(y.Webs, w.name) {
			continue
		}
		web, err := w.web(0)
		if err != nil {
			return nil, err
		}
		j := topicJob{w.name, web, w.train, agents, 0}
		if w == generated {
			j.agents, j.depth = min(agents, topicAgents), y.Depth
		}
		r, err := j.crawl(ctx, t)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", w.name, err)
		}
		webs = append(webs, *r)
	}
	return webs, nil
}

// crawl crawls the web in all ways.
func (j *topicJob) crawl(ctx context.Context, t *Trial) (*TopicWeb, error) {
	done := t.step("%s: training", j.name)
	c, err := trainedOn(j.train, classify.Logistic)
	if err != nil {
		return nil, err
	}
	model := filepath.Join(t.Dir, j.name+".model")
	if err := writeModel(c.Model(), model); err != nil {
		return nil, err
	}
	done("%d categories", len(c.Categories()))
	truth := j.web.Truth()
	r := &TopicWeb{Name: j.name, Pages: j.web.Pages(), Hosts: j.web.Hosts(), Agents: j.agents, Depth: j.depth,
		Reachable: truth.Reachable()}
	if j.depth > 0 {
		truth = nil
	}
	for _, way := range topicWays {
		flags := way.flags
		if way.name == wayTopic {
			flags = append(flags[:len(flags):len(flags)], "--model", model)
		}
		if j.depth > 0 {
			flags = append(flags[:len(flags):len(flags)], "--depth", strconv.Itoa(j.depth))
		}
		err := t.crawling(fmt.Sprintf("%s: %s, %d agents", j.name, way.name, j.agents), func() (string, error) {
			cost, err := j.way(ctx, t, truth,
				agentGroup{agents: j.agents, flags: flags, pagesMove: way.name != wayRendezvous},
				func(all []*scaled) error {
					if way.name != wayTopic {
						return nil
					}
					dirs := make([]string, len(all))
					for i, a := range all {
						dirs[i] = a.dir
					}
					f, err := topicFigures(ctx, j.web, c, j.depth, dirs)
					if err == nil {
						r.TopicFigures = *f
					}
					return err
				})
			if err != nil {
				return "", err
			}
			cost.Way = way.name
			r.Costs = append(r.Costs, *cost)
			return fmt.Sprintf("%s pages, %s sent", humanize.Comma(cost.Pages), humanize.Bytes(uint64(cost.Sent))), nil
		})
		if err != nil {
			return nil, err
		}
	}
	return r, nil
}

// way crawls the web once, and calls f with the agents.
func (j *topicJob) way(ctx context.Context, t *Trial, truth testweb.Truth, c agentGroup, f func([]*scaled) error) (
	cost *TopicCost, err error) {
	server, stop, err := serveHere(testweb.Config{Origin: j.web, Truth: truth, TTL: time.Hour})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	ca := filepath.Join(t.Dir, "ca.pem")
	if err := os.WriteFile(ca, server.CAPEM(), 0o644); err != nil {
		return nil, fmt.Errorf("web: %w", err)
	}
	c.web = &web{Announcement: announce(server, ca, j.web.Seeds()[0])}
	cost = &TopicCost{ByCall: map[string]int64{}}
	err = c.together(ctx, t, func(all []*scaled) error {
		w, err := c.web.report(ctx)
		if err != nil {
			return err
		}
		cost.Pages = w.Origin.Fetched
		for _, a := range all {
			s := &a.summary
			cost.Fetches, cost.Received = cost.Fetches+s.Pages, cost.Received+s.Bytes
			cost.Moved += s.Moved.Exported
			cost.Stop, cost.Seconds = s.StopReason, max(cost.Seconds, s.DurationS)
			if s.Exchange == nil {
				return fmt.Errorf("%w: the summary of %s has no messages to other agents", ErrTopicCrawl, a.name)
			}
			cost.Sent += s.Exchange.Bytes
			for call, n := range s.Exchange.ByCall {
				cost.ByCall[call] += n
			}
		}
		return f(all)
	})
	return cost, err
}

// writeModel writes a model for the agents.
func writeModel(m *classify.Model, name string) error {
	f, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("model: %w", err)
	}
	return errors.Join(m.Write(f, "an experiment"), f.Close())
}
