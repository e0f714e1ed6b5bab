package gen

import (
	"errors"
	"fmt"
	"time"
)

// Spec describes a generated web. The zero Spec is a small plain web: pages,
// and robots.txt that denies nothing.
//
// A share is between 0 and 1; where zero means a default, a negative share is none.
type Spec struct {
	Seed uint64
	// Hosts is their number; zero means 1000.
	Hosts int64
	// PagesMean is the mean number of pages of a host: zero means 100. The
	// sizes follow a Pareto law of exponent 4/3 up to MaxPages; zero means 300
	// times the mean, and 1000 at least.
	PagesMean float64
	MaxPages  int64
	// PageBytes is the mean length of a page; zero means 22,300. Lengths are
	// log-normal (sigma 0.45); no page is shorter than its links and its head are.
	PageBytes int
	// Links is the mean number of links of a page, which has between half and
	// one and a half times as many; zero means 50.
	Links int
	// Local is the share of the links that stay within the site; zero means 0.8.
	Local float64
	// Topics is how many there are, at most 15, and Languages, at most 20; zero
	// means all of them. Locality is the share of the links out of a site that
	// are drawn from the hosts of its topic, and likewise of its language; zero
	// means 0.7.
	Topics, Languages int
	Locality          float64
	// Addresses is the number of addresses of all hosts, which share them in
	// turn. Zero: the hosts of a site share one, and half of the sites share
	// theirs with seven others. Negative: each host has one of its own. There are
	// no more than 16,516,096.
	Addresses int64

	// Graph, if not nil, gives the hosts, their pages and the links between
	// these. There are about as many hosts as Hosts says then; PagesMean,
	// MaxPages, Links, Local, Locality and Mirrors say nothing.
	Graph *Graph

	// Changes, if not nil, lets the pages change, and say of which version they are.
	Changes *Changes

	// Of the links:
	Redirects float64 // lead through one to three redirects; a 32nd of these go round in circles
	DeadLinks float64 // lead to a 404

	// Of the pages other than a host's first:
	Failing float64 // answer 503 once or twice, then well
	Busy    float64 // answer 429 with a Retry-After of 1 s once, then well
	Slow    float64 // take 0.2 to 1 s to begin and as long again to end

	// Of the pages without children in the tree of their site, which are 7 of
	// 8; so none of these hides another page:
	Denied     float64 // robots.txt forbids them
	Duplicates float64 // are another page of the host once more, byte by byte
	Gone       float64 // answer 410
	Broken     float64 // answer 500
	Hanging    float64 // stop answering, before or in the middle
	Resetting  float64 // end in a reset, before or in the middle
	Truncated  float64 // end too early

	// Of the hosts:
	CrawlDelays float64       // ask for CrawlDelay
	CrawlDelay  time.Duration // zero means 2s
	Sitemaps    float64       // have a sitemap of all their pages
	NoRobots    float64       // have no robots.txt, and deny nothing
	Traps       float64       // have an endless calendar, session ids and growing paths
	Secure      float64       // live on HTTPS, and redirect there from HTTP
	SlowHosts   float64       // take 0.2 to 1 s to begin each answer

	// Of the hosts, taken from the second half of their numbers, so that none
	// hides another host:
	Mirrors     float64 // are another host once more, byte by byte
	ClosedHosts float64 // deny everything in robots.txt
	DeadHosts   float64 // have no address, hang, reset, or a wrong certificate
}

// Plain is a web in which nothing goes wrong: pages, and robots.txt that denies
// a few of them.
func Plain(seed uint64, hosts int64) Spec {
	return Spec{Seed: seed, Hosts: hosts, Denied: 0.02}
}

// Wild is a web with everything that goes wrong on the real one.
func Wild(seed uint64, hosts int64) Spec {
	return Spec{
		Seed: seed, Hosts: hosts,
		Redirects: 0.04, DeadLinks: 0.03,
		Failing: 0.01, Busy: 0.005, Slow: 0.005,
		Denied: 0.03, Duplicates: 0.05, Gone: 0.005, Broken: 0.01, Hanging: 0.002, Resetting: 0.002, Truncated: 0.002,
		CrawlDelays: 0.02, Sitemaps: 0.2, NoRobots: 0.1, Traps: 0.05, Secure: 0.3, SlowHosts: 0.01,
		Mirrors: 0.05, ClosedHosts: 0.01, DeadHosts: 0.03,
	}
}

const (
	maxHosts = 1 << 40
	maxPages = 1 << 31
)

// withDefaults fills the zero fields in, and says what cannot be.
func (s Spec) withDefaults() (Spec, error) {
	def(&s.Hosts, 1000)
	if s.Graph != nil {
		s.PagesMean = max(1, float64(s.Graph.Nodes())/float64(s.Hosts))
		s.MaxPages = int64(max(10, 30*s.PagesMean))
		s.Mirrors = 0 // a mirror's pages would have no place in the graph
	}
	def(&s.PagesMean, 100)
	def(&s.MaxPages, max(1000, int64(300*s.PagesMean)))
	def(&s.PageBytes, 22_300)
	def(&s.Links, 50)
	def(&s.Local, 0.8)
	def(&s.Locality, 0.7)
	def(&s.Topics, numTopics)
	def(&s.Languages, numLanguages)
	def(&s.CrawlDelay, 2*time.Second)
	s.Local, s.Locality = max(s.Local, 0), max(s.Locality, 0)
	for _, p := range []float64{
		s.Local, s.Locality, s.Redirects + s.DeadLinks, s.Denied, s.CrawlDelays, s.Sitemaps, s.NoRobots, s.Traps,
		s.Secure, s.SlowHosts, s.Failing, s.Busy, s.Slow, s.Duplicates, s.Gone, s.Broken, s.Hanging, s.Resetting,
		s.Truncated, s.Mirrors, s.ClosedHosts, s.DeadHosts,
	} {
		if !(p >= 0 && p <= 1) {
			return s, fmt.Errorf("share %g: not between 0 and 1", p)
		}
	}
	switch {
	case s.Hosts < 1 || s.Hosts > maxHosts:
		return s, fmt.Errorf("hosts %d: not between 1 and %d", s.Hosts, int64(maxHosts))
	case !(s.PagesMean >= 1 && s.PagesMean <= 1e8):
		return s, fmt.Errorf("pages mean %g: not between 1 and 100 million", s.PagesMean)
	case s.MaxPages < 1 || s.MaxPages > maxPages || float64(s.MaxPages) < s.PagesMean:
		return s, fmt.Errorf("max pages %d: not between the mean and %d", s.MaxPages, int64(maxPages))
	case s.PageBytes < 1 || s.PageBytes > 1<<20:
		return s, fmt.Errorf("page bytes %d: not between 1 and 1 MiB", s.PageBytes)
	case s.Links < 1 || s.Links > 1000:
		return s, fmt.Errorf("links %d: not between 1 and 1000", s.Links)
	case s.Failing+s.Busy+s.Slow+s.Duplicates+s.Gone+s.Broken+s.Hanging+s.Resetting+s.Truncated > 0.8:
		return s, errors.New("more than 0.8 of the pages in all misbehave")
	case s.Mirrors+s.ClosedHosts+s.DeadHosts > 0.5:
		return s, errors.New("more than half of the hosts are mirrors, closed or dead")
	case s.CrawlDelay < 0 || s.CrawlDelay > time.Hour:
		return s, fmt.Errorf("crawl delay %s: not between 0 and 1h", s.CrawlDelay)
	case s.Topics < 1 || s.Topics > numTopics:
		return s, fmt.Errorf("topics %d: not between 1 and %d", s.Topics, numTopics)
	case s.Languages < 1 || s.Languages > numLanguages:
		return s, fmt.Errorf("languages %d: not between 1 and %d", s.Languages, numLanguages)
	}
	return s, nil
}

func def[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
