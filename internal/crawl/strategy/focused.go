package strategy

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/store/recent"
	"github.com/orbweaver/orbweaver/internal/web/classify"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/parse"
)

// An Evidence is a set of what tells where a link leads.
type Evidence uint8

// The kinds of evidence.
const (
	FromPage    Evidence = 1 << iota // the topic of the page with the link
	FromAnchor                       // the words of the link's anchor text
	FromURL                          // the words of the link's path and query
	FromHost                         // the topics of the pages that the crawl has fetched from the link's host
	AllEvidence = FromPage | FromAnchor | FromURL | FromHost
)

// FocusedConfig tunes a Focused.
type FocusedConfig struct {
	// Classifier tells the topic of a page. It must give probabilities (see classify.Answer).
	Classifier *classify.Classifier
	// Topics are the wanted categories, in any case. If there are none, the agent's own categories are wanted.
	Topics []string
	// Pages are Place.Pages. They have no effect if there are Topics.
	Pages Pages
	// Evidence is what orders the links. Zero means AllEvidence.
	Evidence Evidence
}

// An Own is how much of each category of pages an agent of a cluster keeps, in the order of the classifier's
// Categories. The share is 1 if all pages of the category belong to the agent, and less if other agents have parts of
// the category. It never changes.
type Own struct{ Shares []float64 }

// A Focused takes every link, and fetches those first that probably lead to pages of the wanted topics (Chakrabarti,
// van den Berg and Dom, "Focused crawling: a new approach to topic-specific web resource discovery", WWW 1999). Its
// pages are those of a breadth-first crawl. A crawl that ends at a limit has more pages of the wanted topics.
//
// The chance of a link is made of independent evidence, added as logarithms of odds:
//
//   - the probability that the page with the link is wanted, and how often links stay in a topic (locality);
//   - the words of the anchor text, and those of the URL;
//   - for links to other hosts: the share of the host's fetched pages that are wanted, beside that of all fetched
//     pages. Pages that the agent has fetched for other agents count, too.
//
// The chance becomes the level of the link, from 1 to levels. The first page that names a URL decides its level. The
// level is a part of the link, so it is durable, and goes to the agent that owns the host.
//
// The wanted topics may be those of the agent (FocusedConfig.Pages). They change with the agents of the cluster. Links
// that wait keep their levels then. If the agent has no category, or all of them, all links have the same level.
//
// What the crawl knows of hosts is in RAM only, of at most maxHosts hosts. After a restart this evidence is missing
// until pages of the host were fetched. For the hosts of other agents it is always missing.
type Focused struct {
	cfg   FocusedConfig
	terms string
	works sync.Pool
	now   atomic.Pointer[interest]

	mu    sync.Mutex // guards all below, and changes of now
	all   hostTopics // of all hosts
	hosts *recent.Cache[string, hostTopics]
}

// An interest is what is wanted. It never changes.
type interest struct {
	own    *Own      // nil: the topics are given
	wanted []float64 // how much, from 0 to 1, by number of the classifier's category
	// ofModel has the same by number of the model's category. Categories of a language are not among them.
	ofModel []float64
	base    float64 // the chance of a page of which nothing is known
	nothing float64 // what the model says of a text without words, as logarithm of odds
}

// tells reports whether some pages are wanted more than others.
func (in *interest) tells() bool { return in.base > 0 && in.base < 1 }

// hostTopics counts the fetched pages of a host.
type hostTopics struct{ wanted, all float64 }

const (
	// levels is the number of levels of a Focused. Each is a queue of the frontier.
	levels = 16
	// most bounds the logarithm of the odds of a link; the levels divide the range from -most to most.
	most = 5.0
	// locality is the share of links that lead to a page of the same category. The paper on X4 measured 62.4 %
	// (section 5).
	locality = 0.624
	// wordsWeight is the weight of a link's words. An anchor text has few words, so the model is less sure of it than
	// it says.
	wordsWeight = 0.7
	// mostWords bounds what words say.
	mostWords = 4.0
	// hostPages is the number of pages of a host after which its own share of wanted pages counts as much as that of
	// all hosts.
	hostPages = 8
	// hostWeight is the weight of a host's share.
	hostWeight = 0.7
	// maxHosts bounds the hosts.
	maxHosts = 1 << 16
	// maxProse bounds the text that the classifier reads, in bytes.
	maxProse = 1 << 17
)

// Errors of OpenFocused.
var (
	// ErrTopic reports a topic that the model does not have.
	ErrTopic = errors.New("not a category of the model")
	// ErrNoChances reports a model that gives no probabilities.
	ErrNoChances = errors.New("the model gives no probabilities")
)

// work is memory of a worker.
type work struct {
	scratch  classify.Scratch
	words    classify.Document
	scores   []float64
	text     []byte
	fragment []byte
}

// judged is what a Focused knows of a page while the crawl follows its links.
type judged struct {
	in   *interest
	odds float64 // what the page says of its links, as logarithm of odds beyond those of the base
	next int     // the number of the next link in parse.Page.Links
}

// OpenFocused returns a Focused. An error wraps ErrTopic or ErrNoChances.
func OpenFocused(cfg FocusedConfig) (*Focused, error) {
	c := cfg.Classifier
	cfg.Evidence = cmp.Or(cfg.Evidence, AllEvidence)
	f := &Focused{cfg: cfg, hosts: recent.New[string, hostTopics](maxHosts)}
	f.works.New = func() any { return new(work) }
	if c.Model().Kind() == classify.Rocchio {
		return nil, fmt.Errorf("%w: it is of the kind %s", ErrNoChances, classify.Rocchio)
	}
	if len(cfg.Topics) == 0 && cfg.Pages != nil {
		f.terms = "own categories by the model " + c.Model().Digest()
		f.now.Store(f.interestIn(nil, make([]float64, len(c.Categories()))))
		return f, nil
	}
	f.cfg.Pages = nil
	wanted := make([]float64, len(c.Categories()))
	var names []string
	for _, topic := range cfg.Topics {
		same := func(name string) bool { return strings.EqualFold(name, topic) }
		i := slices.IndexFunc(c.Categories(), same)
		if i < 0 {
			return nil, fmt.Errorf("%q is %w", topic, ErrTopic)
		}
		if wanted[i] == 0 {
			wanted[i] = 1
			names = append(names, c.Categories()[i])
		}
	}
	if len(names) == 0 || len(names) == len(wanted) {
		return nil, fmt.Errorf("%d of %d categories are wanted, but %w to tell from others", len(names), len(wanted),
			ErrTopic)
	}
	slices.Sort(names)
	f.terms = strings.Join(names, ",") + " by the model " + c.Model().Digest()
	f.now.Store(f.interestIn(nil, wanted))
	return f, nil
}

// interestIn returns the interest in pages by the number of their category.
func (f *Focused) interestIn(own *Own, wanted []float64) *interest {
	c := f.cfg.Classifier
	in := &interest{own: own, wanted: wanted, ofModel: make([]float64, len(c.Model().Categories()))}
	for i, much := range wanted {
		in.base += much / float64(len(wanted))
		if k := slices.Index(c.Model().Categories(), c.Categories()[i]); k >= 0 {
			in.ofModel[k] = much
		}
	}
	in.nothing = f.oddsOf(in, new(work))
	return in
}

// interest returns what is wanted now. If the agent's categories have changed, what was counted of hosts is forgotten.
func (f *Focused) interest() *interest {
	in := f.now.Load()
	if f.cfg.Pages == nil {
		return in
	}
	own := f.cfg.Pages.Own()
	if own == nil || own == in.own {
		return in
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if in = f.now.Load(); own == in.own {
		return in
	}
	if !slices.Equal(own.Shares, in.wanted) {
		in = f.interestIn(own, own.Shares)
		f.all, f.hosts = hostTopics{}, recent.New[string, hostTopics](maxHosts)
	} else {
		same := *in
		same.own, in = own, &same
	}
	f.now.Store(in)
	return in
}

// Terms returns which topics are wanted, and the digest of the model. Agents of a cluster compare it.
func (f *Focused) Terms() string { return f.terms }

// SeedLevel implements visit.Reader: the seeds come first.
func (*Focused) SeedLevel() uint8 { return levels }

// Follow implements visit.Strategy. Redirects and embedded files keep the level of their page.
func (f *Focused) Follow(p *visit.Page, l *link.Link) visit.Choice {
	switch l.Hops[len(l.Hops)-1] {
	case 'R', 'E':
		l.Level = p.Link.Level
		return visit.Take
	}
	w := f.works.Get().(*work)
	defer f.works.Put(w)
	j, ok := p.Memo.(*judged)
	if !ok {
		j = f.judge(p, w)
		p.Memo = j
	}
	if !j.in.tells() {
		l.Level = levelOf(0)
		return visit.Take
	}
	odds := j.odds + f.words(p.Parsed, j, l, w)
	if host := l.URL.Host(); f.cfg.Evidence&FromHost != 0 && host != p.Link.URL.Host() {
		odds += hostWeight * f.host(j.in, host)
	}
	l.Level = levelOf(odds)
	return visit.Take
}

// Passed implements visit.Reader: the page counts for its host.
func (f *Focused) Passed(p *visit.Page) {
	w := f.works.Get().(*work)
	defer f.works.Put(w)
	f.judge(p, w)
}

// levelOf returns the level of a link with these odds beyond the base.
func levelOf(odds float64) uint8 {
	return uint8(1 + min(levels-1, int((min(max(odds, -most), most)+most)/(2*most)*levels)))
}

// oddsOfLevel returns the middle of a level's odds; 0 for levels that a Focused does not give.
func oddsOfLevel(level uint8) float64 {
	if level == 0 || level > levels {
		return 0
	}
	return (float64(level)-0.5)/levels*2*most - most
}

// judge classifies a page. A page with too few words for a category, such as a frameset or a list of pictures, passes
// on half of the odds by which the crawl came to it.
func (f *Focused) judge(p *visit.Page, w *work) *judged {
	j := &judged{in: f.interest()}
	if p.Parsed == nil || !j.in.tells() {
		return j
	}
	w.text = p.Parsed.AppendProse(w.text[:0], p.Body)
	answer := f.cfg.Classifier.Classify(w.text[:min(len(w.text), maxProse)], p.Parsed.MainText(), &w.scratch)
	if cap(w.text) > 1<<20 {
		w.text = nil
	}
	if answer.Chances == nil {
		// With topics of its own, the agent that found the page may have wanted others.
		if f.cfg.Pages == nil && f.cfg.Evidence&FromPage != 0 && p.Parsed.Kind != parse.Sitemap {
			j.odds = oddsOfLevel(p.Link.Level) / 2
		}
		return j
	}
	chance := 0.0
	for i, much := range j.in.wanted {
		chance += much * answer.Chances[i]
	}
	f.learn(j.in, p.Link.URL.Host(), chance)
	if f.cfg.Evidence&FromPage != 0 {
		// A link from a page of another topic that leaves the topic leads to any of the others.
		base := j.in.base
		elsewhere := (1 - locality) * base / (1 - base)
		j.odds = logOdds(chance*max(locality, base)+(1-chance)*min(elsewhere, base)) - logOdds(base)
	}
	return j
}

// words returns what the anchor text and the URL of a link say, as logarithm of odds beyond those of no words.
func (f *Focused) words(p *parse.Page, j *judged, l *link.Link, w *work) float64 {
	w.fragment = w.fragment[:0]
	if p != nil && f.cfg.Evidence&FromAnchor != 0 {
		// The crawl asks in the order of the page, but not about each link.
		for i := j.next; i < len(p.Links); i++ {
			if p.Links[i].URL == l.URL {
				w.fragment = append(w.fragment, p.Anchor(i)...)
				j.next = i + 1
				break
			}
		}
	}
	if f.cfg.Evidence&FromURL != 0 {
		w.fragment = append(append(w.fragment, ' '), l.URL.RequestURI()...)
	}
	f.cfg.Classifier.Model().Read(&w.words, w.fragment)
	if w.words.Terms() == 0 {
		return 0
	}
	return wordsWeight * min(max(f.oddsOf(j.in, w)-j.in.nothing, -mostWords), mostWords)
}

// oddsOf returns the logarithm of the odds of the document in w.
func (f *Focused) oddsOf(in *interest, w *work) float64 {
	w.scores = f.cfg.Classifier.Model().Scores(&w.words, w.scores)
	classify.Probabilities(w.scores)
	chance := 0.0
	for i, much := range in.ofModel {
		chance += much * w.scores[i]
	}
	return logOdds(chance)
}

// logOdds returns the logarithm of the odds of a probability, which is first kept away from 0 and 1.
func logOdds(p float64) float64 {
	const least = 1e-4
	p = min(max(p, least), 1-least)
	return math.Log(p / (1 - p))
}

// host returns what the fetched pages of a host say, as logarithm of odds beyond those of all hosts.
func (f *Focused) host(in *interest, name string) float64 {
	f.mu.Lock()
	h, all := f.of(name), f.all
	f.mu.Unlock()
	if h.all == 0 {
		return 0
	}
	usual := share(all, in.base)
	return logOdds(share(h, usual)) - logOdds(usual)
}

// share returns the share of wanted pages of a host. Of a few pages, usual counts more.
func share(h hostTopics, usual float64) float64 {
	return (h.wanted + hostPages*usual) / (h.all + hostPages)
}

// of returns the counts of a host. The caller holds mu.
func (f *Focused) of(name string) hostTopics {
	h, _ := f.hosts.Get(name)
	return h
}

// learn counts a fetched page, unless another interest holds by now.
func (f *Focused) learn(in *interest, name string, chance float64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.now.Load() != in {
		return
	}
	h := f.of(name)
	h.wanted += chance
	h.all++
	f.all.wanted += chance
	f.all.all++
	f.hosts.Set(strings.Clone(name), h)
}
