package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/crawl/strategy"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/testweb"
	"github.com/orbweaver/orbweaver/internal/testweb/gen"
	"github.com/orbweaver/orbweaver/internal/web/classify"
	"github.com/orbweaver/orbweaver/internal/web/parse"
	"github.com/orbweaver/orbweaver/internal/web/scope"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// Focused answers: does a focused crawl fetch more pages of a topic than a breadth-first crawl that fetches as many
// pages?
//
// Webs and crawls run in this process, over loopback. What counts is the order of the pages, not the time. A page is of
// the topic if the web says so; what the classifier says does not count.
type Focused struct {
	// Texts is the folder with the texts. Empty means "../shared/data/topics".
	Texts string `default:"../shared/data/topics" placeholder:"DIR" help:"${focused_texts}"`
	// Pages is the number of pages of the generated web. Zero means 1,000,000, with --quick 5,000.
	Pages int64 `placeholder:"N" help:"${focused_pages}"`
	// Fetched is the number of pages that a crawl fetches of it. Zero means 10,000, with --quick 500.
	Fetched int64 `placeholder:"N" help:"${focused_fetched}"`
}

const (
	focusedDraws = 3
	focusedSeeds = 5 // pages of the topic from which a crawl starts
	// focusedDelay is the delay of a host. A crawl without any would stay in a host for 64 requests.
	focusedDelay = time.Millisecond
	// focusedWorkers is small, so that the crawl does not take links of other topics only to be busy.
	focusedWorkers = 4
	// focusedSample is the number of pages by which the accuracy on a web is measured.
	focusedSample = 10_000
)

// ErrHarvest reports a crawl that did not fetch the pages that it should.
var ErrHarvest = errors.New("the crawl did not fetch the pages")

// A focusedOrder is an order of the crawls. A zero evidence is breadth-first.
type focusedOrder struct {
	Name     string
	evidence strategy.Evidence
}

const (
	focusedPlain = "breadth-first"
	focusedAll   = "focused"
	focusedBound = "bound" // as if links told the topic of their page
)

var focusedOrders = []focusedOrder{
	{focusedPlain, 0},
	{"page", strategy.FromPage},
	{"page, anchor", strategy.FromPage | strategy.FromAnchor},
	{"page, anchor, URL", strategy.FromPage | strategy.FromAnchor | strategy.FromURL},
	{focusedAll, strategy.AllEvidence},
}

// A Harvest is how many pages of the topic a crawl fetched.
type Harvest struct {
	Web     string `json:"web"`
	Order   string `json:"order"`
	Draw    int    `json:"draw"`
	Fetched int    `json:"fetched"`
	// Rates has the share of the pages of the topic among the first pages, by their number.
	Rates map[int]float64 `json:"harvest_rate"`
	// Unseen is the share among the pages on which the classifier was not trained, by the number of all pages.
	Unseen map[int]float64 `json:"harvest_rate_unseen"`
}

// A focusedWeb is a web of the experiment.
type focusedWeb struct {
	name   string
	topic  string
	web    func(draw int) (*gen.TextWeb, error)
	train  []classify.Text
	unseen func(page int64) bool // whether the classifier was not trained on the page
	points []int                 // numbers of pages at which the harvest is told; the last one ends the crawl

	like     *focusedWeb          // has the same classifier; nil: none
	model    *classify.Classifier // once it is trained
	pages    int64
	hosts    int64
	share    float64 // of the pages of the topic
	accuracy classify.Share
	links    classify.Share // those within a category
}

// Run implements Experiment.
func (x *Focused) Run(ctx context.Context, t *Trial) (*Result, error) {
	y := *x
	every := 1
	if t.Quick {
		every = 4
	}
	def(&y.Texts, defaultTexts)
	size(t.Quick, &y.Pages, 1_000_000, 5000)
	size(t.Quick, &y.Fetched, 10_000, 500)
	odp, wiki, err := readBoth(y.Texts, every)
	if err != nil {
		return nil, err
	}
	webs := []*focusedWeb{
		encyclopediaWeb("encyclopedia", wiki, gen.TextSpec{}),
		encyclopediaWeb("encyclopedia, titles in URLs", wiki, gen.TextSpec{Slugs: true}),
		encyclopediaWeb("encyclopedia, generic anchors", wiki, gen.TextSpec{Generic: true}),
		y.generatedWeb(t, "generated", odp, gen.TextSpec{}),
		y.generatedWeb(t, "generated, generic anchors", odp, gen.TextSpec{Generic: true}),
	}
	webs[1].like, webs[2].like, webs[4].like = webs[0], webs[0], webs[3]
	var got []Harvest
	for _, w := range webs {
		done := t.step("%s: training", w.name)
		if w.like != nil {
			w.model = w.like.model
		} else if w.model, err = trainedOn(w.train, classify.Logistic); err != nil {
			return nil, err
		}
		if err := w.measure(); err != nil {
			return nil, err
		}
		done("accuracy %.1f %%", percent*w.accuracy.Accuracy())
		for _, o := range append(focusedOrders, focusedOrder{Name: focusedBound}) {
			last := w.points[len(w.points)-1]
			err := t.crawling(w.name+": "+o.Name, func() (string, error) {
				var sum float64
				for draw := range focusedDraws {
					h, err := w.harvest(ctx, t, o, draw)
					if err != nil {
						return "", err
					}
					got = append(got, *h)
					sum += h.Rates[last]
				}
				return fmt.Sprintf("%.1f %% of the first %d pages", percent*sum/focusedDraws, last), nil
			})
			if err != nil {
				return nil, err
			}
		}
	}
	return y.result(webs, got), nil
}

// result returns the measurements: a place for each web, and for each crawl and its first pages.
func (x *Focused) result(webs []*focusedWeb, got []Harvest) *Result {
	d := newData("web", "order", "draw", "first")
	d.Fact("seeds", focusedSeeds)
	d.Fact("draws", focusedDraws)
	d.Fact("pages", x.Pages)
	d.Fact("delay", focusedDelay.String())
	for _, w := range webs {
		d.At(w.name).Set("topic", w.topic).Set("web_pages", w.pages).Set("hosts", w.hosts).Set("of_the_topic", w.share).
			Set("links_right", w.links.Right).Set("links_of", w.links.Of).
			Set("accuracy_right", w.accuracy.Right).Set("accuracy_of", w.accuracy.Of)
	}
	for _, h := range got {
		for _, n := range slices.Sorted(maps.Keys(h.Rates)) {
			d.At(h.Web, h.Order, h.Draw, n).Set("harvest_rate", h.Rates[n]).Set("harvest_rate_unseen", h.Unseen[n])
		}
	}
	return &Result{Name: "focused", Rows: d}
}

// encyclopediaWeb returns the web of the articles. Its classifier is trained on the train half.
func encyclopediaWeb(name string, rows []labelled, how gen.TextSpec) *focusedWeb {
	e := newEncyclopedia(rows)
	var all []gen.Article
	trained := map[string]bool{}
	for _, r := range rows {
		all = append(all, gen.Article{ID: r.ID, Title: r.Title, Topics: r.Topics, Links: r.Links, Text: r.Text})
		trained[r.Title] = r.Split == "train"
	}
	web, err := gen.FromArticles(all, how)
	n := len(rows)
	return &focusedWeb{
		name: name, topic: "Science", train: e.training(), points: []int{n / 20, n / 10, n / 5, n / 2},
		web:    func(int) (*gen.TextWeb, error) { return web, err },
		unseen: func(page int64) bool { return !trained[web.Title(page)] },
	}
}

// generatedWeb returns the generated webs, one for each draw. Their texts are the test half.
func (x *Focused) generatedWeb(t *Trial, name string, rows []labelled, how gen.TextSpec) *focusedWeb {
	var texts []gen.Text
	for _, r := range rows {
		if r.Split == "test" {
			texts = append(texts, gen.Text{Category: r.Category, Text: r.Text})
		}
	}
	webs := map[int]*gen.TextWeb{}
	n := int(x.Fetched)
	return &focusedWeb{
		name: name, topic: "SCIENCE", points: []int{n / 10, n / 4, n / 2, n},
		train: directory(rows, func(r *labelled) bool { return r.Split == "train" }),
		web: func(draw int) (w *gen.TextWeb, err error) {
			if w = webs[draw]; w == nil {
				how.Seed, how.Pages = t.Seed+uint64(draw), x.Pages
				w, err = gen.FromTexts(how, texts)
				webs[draw] = w
			}
			return w, err
		},
		unseen: func(int64) bool { return true },
	}
}

// measure lets the classifier judge pages of all draws as a crawl gets them. Pages of the train half do not count.
func (w *focusedWeb) measure() error {
	var p parse.Page
	var s classify.Scratch
	var body, text []byte
	var wanted classify.Share
	for draw := range focusedDraws {
		web, err := w.web(draw)
		if err != nil {
			return err
		}
		w.pages, w.hosts = web.Pages(), web.Hosts()
		for page := int64(0); page < web.Pages(); page += max(1, web.Pages()/focusedSample) {
			categories := web.Categories(page)
			for _, to := range web.Links(page) {
				tally(&w.links, common(categories, web.Categories(int64(to))))
			}
			tally(&wanted, slices.Contains(categories, w.topic))
			if !w.unseen(page) || len(categories) == 0 {
				continue
			}
			body = web.AppendPage(body[:0], page)
			parse.Parse(parse.Input{URL: weburl.MustParse(web.URL(page)), ContentType: "text/html; charset=utf-8",
				Body: body}, parse.Options{}, &p)
			text = p.AppendProse(text[:0], body)
			if a := w.model.Classify(text, p.MainText(), &s); a.Category != classify.Unclassifiable {
				tally(&w.accuracy, slices.Contains(categories, a.Category))
			}
		}
	}
	w.share = wanted.Accuracy()
	return nil
}

// seeds returns the pages from which the crawls of a draw start: pages of the topic with links, at random.
func (w *focusedWeb) seeds(web *gen.TextWeb, seed uint64, draw int) (pages []int64) {
	r := rand.New(rand.NewPCG(seed, uint64(draw)))
	for range 1_000_000 {
		p := r.Int64N(web.Pages())
		if slices.Contains(web.Categories(p), w.topic) && !slices.Contains(pages, p) && len(web.Links(p)) > 0 {
			if pages = append(pages, p); len(pages) == focusedSeeds {
				break
			}
		}
	}
	return pages
}

// harvest crawls a web.
func (w *focusedWeb) harvest(ctx context.Context, t *Trial, o focusedOrder, draw int) (*Harvest, error) {
	web, err := w.web(draw)
	if err != nil {
		return nil, err
	}
	seeds := w.seeds(web, t.Seed, draw)
	most := w.points[len(w.points)-1]
	var pages []int64
	if o.Name == focusedBound {
		pages = w.bound(web, seeds, most)
	} else if pages, err = w.crawl(ctx, t, o, draw, web, seeds, most); err != nil {
		return nil, err
	}
	if len(pages) < most {
		return nil, fmt.Errorf("%w: %d of %d", ErrHarvest, len(pages), most)
	}
	h := &Harvest{Web: w.name, Order: o.Name, Draw: draw, Fetched: len(pages), Rates: map[int]float64{},
		Unseen: map[int]float64{}}
	var all, unseen classify.Share
	for i, p := range pages {
		is := slices.Contains(web.Categories(p), w.topic)
		tally(&all, is)
		if w.unseen(p) {
			tally(&unseen, is)
		}
		if n := i + 1; slices.Contains(w.points, n) {
			h.Rates[n], h.Unseen[n] = all.Accuracy(), float64(unseen.Right)/float64(max(unseen.Of, 1))
		}
	}
	return h, nil
}

// bound fetches the discovered pages of the topic first. No real crawler knows them.
func (w *focusedWeb) bound(web *gen.TextWeb, seeds []int64, most int) (fetched []int64) {
	known := map[int64]bool{}
	queues := map[bool][]int64{} // by whether the page is of the topic
	push := func(p int64) {
		if !known[p] {
			known[p] = true
			is := slices.Contains(web.Categories(p), w.topic)
			queues[is] = append(queues[is], p)
		}
	}
	for _, p := range seeds {
		push(p)
	}
	for len(fetched) < most && len(queues[true])+len(queues[false]) > 0 {
		is := len(queues[true]) > 0
		p := queues[is][0]
		queues[is] = queues[is][1:]
		fetched = append(fetched, p)
		for _, to := range web.Links(p) {
			push(int64(to))
		}
	}
	return fetched
}

// crawl crawls a web over loopback, and returns the pages in the order in which they arrived.
func (w *focusedWeb) crawl(ctx context.Context, t *Trial, o focusedOrder, draw int, web *gen.TextWeb, seeds []int64,
	most int) (pages []int64, err error) {
	server, stop, err := serveHere(testweb.Config{Origin: web})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	cfg := node.Config{
		Dir: filepath.Join(t.Dir, fmt.Sprintf("%s-%s-%d", w.name, o.Name, draw)), Contact: "lab@example.org",
	}
	for _, p := range seeds {
		cfg.Seeds = append(cfg.Seeds, web.URL(p))
	}
	if o.evidence != 0 {
		cfg.Strategy = func(strategy.Place) (visit.Strategy, error) {
			return strategy.OpenFocused(strategy.FocusedConfig{Classifier: w.model, Topics: []string{w.topic},
				Evidence: o.evidence})
		}
	}
	var mu sync.Mutex // guards pages
	cfg.Pages = visit.PagesFunc(func(_ context.Context, p *visit.Page) error {
		n, ok := web.Page(p.Link.URL.String())
		if !ok || p.Status != 200 {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		if len(pages) >= most {
			return visit.ErrEnough
		}
		pages = append(pages, n)
		return nil
	})
	cfg.Crawl.Workers = focusedWorkers
	cfg.Scope.Scope = scope.Any
	cfg.Frontier.HostDelay = focusedDelay
	cfg.DNS.Servers = []string{server.DNSAddr()}
	cfg.Fetch.ConnectTo, cfg.Fetch.AllowPrivate = server.ConnectTo(), true
	a, err := node.Open(cfg)
	if err != nil {
		return nil, err
	}
	r, err := a.Run(ctx)
	if err = cmp.Or(err, a.Close(), ctx.Err()); err != nil {
		return nil, err
	}
	if r.Stop != crawl.ByPages && r.Stop != crawl.Finished {
		return nil, fmt.Errorf("%w: it stopped: %s", ErrHarvest, r.Stop)
	}
	return pages, nil
}
