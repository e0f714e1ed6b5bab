package lab

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/orbweaver/orbweaver/internal/crawl/strategy"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/node/membership"
	"github.com/orbweaver/orbweaver/internal/testweb"
	"github.com/orbweaver/orbweaver/internal/testweb/topical"
	"github.com/orbweaver/orbweaver/internal/web/classify"
	"github.com/orbweaver/orbweaver/internal/web/scope"
)

// FocusedTopic answers: if agents divide the pages by topic, do they send each other fewer pages when each fetches its
// own topics first?
//
// Web and agents run in this process, over loopback. What counts is the order of the pages, not the time.
type FocusedTopic struct {
	// Texts is the folder with the texts. Empty means "../shared/data/topics".
	Texts string
	// Agents is the number of agents. Zero means 3.
	Agents int
	// Pages is the number of pages of the generated web. Zero means 20,000, with --quick 5,000.
	Pages int64
	// Fetched is the number of pages that the agents fetch together in a crawl. Zero means 1,000, with --quick 200.
	Fetched int64
	Again   string
}

// topicSteps is the number of points at which a crawl is measured.
const topicSteps = 10

// A TopicPoint is what agents have done up to a number of pages.
type TopicPoint struct {
	Pages int `json:"pages"` // fetched by all agents
	// Kept is the share of the pages that stay with the agent that fetched them.
	Kept float64 `json:"kept"`
	// Sent and Bytes are the pages sent to other agents, and their bytes, for each fetched page.
	Sent  float64 `json:"sent_per_page"`
	Bytes float64 `json:"sent_bytes_per_page"`
}

// A OwnTopicCrawl is a crawl of agents that divide the pages by topic.
type OwnTopicCrawl struct {
	Web    string       `json:"web"`
	Order  string       `json:"order"`
	Draw   int          `json:"draw"`
	Points []TopicPoint `json:"points"`
}

// Run implements Experiment.
func (x *FocusedTopic) Run(ctx context.Context, t *Trial) (*Result, error) {
	y := *x
	every := 1
	y.Texts = cmp.Or(y.Texts, "../shared/data/topics")
	if t.Quick {
		every = 4
		def(&y.Pages, 5000)
		def(&y.Fetched, 200)
	}
	def(&y.Pages, 20_000)
	def(&y.Fetched, 1000)
	def(&y.Agents, 3)
	odp, err := readTexts(y.Texts, "odp.jsonl.gz", every)
	if err != nil {
		return nil, err
	}
	wiki, err := readTexts(y.Texts, "wikispeedia.jsonl.gz", every)
	if err != nil {
		return nil, err
	}
	webs := []*focusedWeb{
		encyclopediaWeb("encyclopedia", wiki, topical.Articles{}),
		(&Focused{Pages: y.Pages, Fetched: y.Fetched}).generatedWeb(t, odp),
	}
	var got []OwnTopicCrawl
	for _, w := range webs {
		done := t.step("%s: training", w.name)
		if w.model, err = trainedOn(w.train, classify.Bayes); err != nil {
			return nil, err
		}
		done("%d categories", len(w.model.Categories()))
		for _, order := range []string{focusedPlain, focusedAll} {
			for draw := range focusedDraws {
				done := t.step("%s: %s, draw %d", w.name, order, draw+1)
				stop := t.alive("crawling")
				c, err := y.crawl(ctx, t, w, order, draw)
				stop()
				if err != nil {
					return nil, fmt.Errorf("%s, %s: %w", w.name, order, err)
				}
				last := c.Points[len(c.Points)-1]
				done("%.1f %% of %d pages stay", percent*last.Kept, last.Pages)
				got = append(got, *c)
			}
		}
	}
	return y.result(webs, got), nil
}

// crawl lets the agents crawl a web until they have fetched as many pages as they should.
func (x *FocusedTopic) crawl(ctx context.Context, t *Trial, w *focusedWeb, order string, draw int) (
	c *OwnTopicCrawl, err error) {
	web, err := w.web(draw)
	if err != nil {
		return nil, err
	}
	server, err := testweb.New(testweb.Config{Origin: web, Log: io.Discard})
	if err != nil {
		return nil, err
	}
	stop := server.Start()
	defer func() {
		err = errors.Join(err, stop())
		server.Close()
	}()
	addrs, err := testweb.FreeAddrs(x.Agents)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(t.Dir, fmt.Sprintf("topic-%s-%s-%d", w.name, order, draw))
	defer os.RemoveAll(dir)
	most := int(x.Fetched)
	var seeds []string
	for _, p := range w.seeds(web, t.Seed, draw) {
		seeds = append(seeds, web.URL(p))
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs, logs := make([]error, x.Agents), []string(nil)
	var running sync.WaitGroup
	for i, addr := range addrs {
		cfg := node.Config{Dir: filepath.Join(dir, strconv.Itoa(i+1)), Contact: "lab@example.org", Seeds: seeds,
			Cluster: &membership.Config{Name: fmt.Sprintf("a%d", i+1), Capacity: 1, Listen: addr, Join: addrs[:1],
				Agents: x.Agents, Partition: membership.PartitionTopic, Classifier: w.model}}
		if order == focusedAll {
			cfg.Strategy = func(at strategy.Place) (visit.Strategy, error) {
				return strategy.OpenFocused(strategy.FocusedConfig{Classifier: w.model, Pages: at.Pages})
			}
		}
		cfg.Crawl.Workers, cfg.Crawl.PageLimit = focusedWorkers, int64(most)
		cfg.Scope.Scope = scope.Any
		cfg.Frontier.HostDelay = focusedDelay
		cfg.DNS.Servers = []string{server.DNSAddr()}
		cfg.Fetch.ConnectTo, cfg.Fetch.AllowPrivate = server.ConnectTo(), true
		logs = append(logs, filepath.Join(cfg.Dir, "logs", "crawl.log"))
		running.Go(func() {
			a, err := node.Open(cfg)
			if err == nil {
				_, err = a.Run(ctx)
				err = errors.Join(err, a.Close())
			}
			if errs[i] = err; err != nil {
				cancel() // the others would wait for it
			}
		})
	}
	running.Wait()
	if err := cmp.Or(errors.Join(errs...), ctx.Err()); err != nil {
		return nil, err
	}
	all, err := fetchedPages(logs)
	if err != nil {
		return nil, err
	}
	if len(all) < most {
		return nil, fmt.Errorf("%w: %d of %d", ErrHarvest, len(all), most)
	}
	return &OwnTopicCrawl{w.name, order, draw, topicPoints(all, most)}, nil
}

// A fetchedPage is a page with status 200 that an agent has fetched.
type fetchedPage struct {
	start string // of the request, as digits in the order of time
	size  int64
	sent  bool // to another agent
}

// fetchedPages reads the pages from the logs of all agents, in the order in which they were fetched.
func fetchedPages(logs []string) (all []fetchedPage, err error) {
	for _, name := range logs {
		f, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("crawl.log: %w", err)
		}
		defer f.Close()
		sc := bufio.NewScanner(f)
		sc.Buffer(nil, 1<<20)
		for sc.Scan() {
			col := strings.Fields(sc.Text())
			if len(col) < 12 || col[1] != "200" || strings.HasSuffix(col[4], "P") ||
				strings.Contains(col[11], "imported:") {
				continue
			}
			start, _, _ := strings.Cut(col[8], "+")
			size, err := strconv.ParseInt(col[2], 10, 64)
			if err != nil {
				return nil, fmt.Errorf("%s: size: %w", name, err)
			}
			all = append(all, fetchedPage{start, size, strings.Contains(col[11], "exported")})
		}
		if err := sc.Err(); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	slices.SortStableFunc(all, func(a, b fetchedPage) int { return cmp.Compare(a.start, b.start) })
	return all, nil
}

// topicPoints sums up the first pages, at topicSteps numbers of pages up to most.
func topicPoints(all []fetchedPage, most int) (points []TopicPoint) {
	sent, bytes := 0, int64(0)
	for i, p := range all[:most] {
		if p.sent {
			sent++
			bytes += p.size
		}
		if n := i + 1; n == most*(len(points)+1)/topicSteps {
			of := float64(n)
			points = append(points, TopicPoint{n, 1 - float64(sent)/of, float64(sent) / of, float64(bytes) / of})
		}
	}
	return points
}
